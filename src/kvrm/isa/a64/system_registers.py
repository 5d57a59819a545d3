"""Names of system registers and system instructions, for the disassembler (Arm ARM C5, D19: the A profile's).

Each line of the table is ``op0 op1 CRn CRm: names``, the names in the order of op2, `-` for none. With an
op2 and a step after CRm, it is a numbered series that goes on every `step` encodings. A trailing `<` marks
what can only be read, `>` what can only be written, `read/write` two names of one encoding. Of system
instructions, `=` marks those without a register: they have that name only if Rt is 31.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator

READ, WRITE = 1, 0
"""Values of the bit L of MRS and MSR."""


def generic_name(encoding: int) -> str:
    """``s3_0_c1_c2_3``: any register, by op0, op1, CRn, CRm and op2 (the 16 bits of `encoding`)."""
    op0, op1, crn, crm, op2 = fields_of(encoding)
    return f"s{op0}_{op1}_c{crn}_c{crm}_{op2}"


def fields_of(encoding: int) -> tuple[int, int, int, int, int]:
    """op0, op1, CRn, CRm and op2."""
    return encoding >> 14, encoding >> 11 & 7, encoding >> 7 & 15, encoding >> 3 & 15, encoding & 7


def encoding_of(op0: int, op1: int, crn: int, crm: int, op2: int = 0) -> int:
    """The 16 bits that name a register or system instruction."""
    return op0 << 14 | op1 << 11 | crn << 7 | crm << 3 | op2


def register_name(encoding: int, direction: int) -> str:
    """Name of a system register as MRS (READ) or MSR (WRITE) shows it."""
    return _registers(direction).get(encoding) or generic_name(encoding)


def instruction_name(encoding: int) -> tuple[str, bool] | None:
    """Name of a system instruction, like ``dc zva``, and whether it takes a register; None without a name."""
    return _instructions().get(encoding)


def _entries() -> Iterator[tuple[int, str]]:
    for line in TABLE.strip().splitlines():
        place, _, names = line.partition(": ")
        numbers = place.split()
        at = encoding_of(*map(int, numbers[:5]))
        if len(numbers) == 6:
            head, first, last, tail = re.split(r"\[(\d+)-(\d+)\]", names)
            for i in range(int(first), int(last) + 1):
                yield at + (i - int(first)) * int(numbers[5]), f"{head}{i}{tail}"
        else:
            yield from ((at + i, name) for i, name in enumerate(names.split()) if name != "-")


@functools.cache
def _registers(direction: int) -> dict[int, str]:
    found = {}
    for encoding, entry in _entries():
        if encoding >> 14 < 2 or entry[-1] == (">" if direction == READ else "<"):
            continue
        read, _, write = entry.strip("<>").partition("/")
        found[encoding] = write if write and direction == WRITE else read
    return found


@functools.cache
def _instructions() -> dict[int, tuple[str, bool]]:
    parts = ((encoding, re.fullmatch(r"(\w+)\.(\w+)(=?)", entry)) for encoding, entry in _entries())
    return {encoding: (f"{match[1]} {match[2]}", not match[3]) for encoding, match in parts if match}


TABLE = """
1 0 7 1: ic.ialluis=
1 0 7 5: ic.iallu=
1 0 7 6: - dc.ivac dc.isw dc.igvac dc.igsw dc.igdvac dc.igdsw
1 0 7 8: at.s1e1r at.s1e1w at.s1e0r at.s1e0w
1 0 7 9: at.s1e1rp at.s1e1wp
1 0 7 10: - - dc.csw - dc.cgsw - dc.cgdsw
1 0 7 14: - - dc.cisw - dc.cigsw - dc.cigdsw
1 0 8 1: tlbi.vmalle1os= tlbi.vae1os tlbi.aside1os tlbi.vaae1os - tlbi.vale1os - tlbi.vaale1os
1 0 8 2: - tlbi.rvae1is - tlbi.rvaae1is - tlbi.rvale1is - tlbi.rvaale1is
1 0 8 3: tlbi.vmalle1is= tlbi.vae1is tlbi.aside1is tlbi.vaae1is - tlbi.vale1is - tlbi.vaale1is
1 0 8 5: - tlbi.rvae1os - tlbi.rvaae1os - tlbi.rvale1os - tlbi.rvaale1os
1 0 8 6: - tlbi.rvae1 - tlbi.rvaae1 - tlbi.rvale1 - tlbi.rvaale1
1 0 8 7: tlbi.vmalle1= tlbi.vae1 tlbi.aside1 tlbi.vaae1 - tlbi.vale1 - tlbi.vaale1
1 1 7 2: - - - - brb.iall= brb.inj=
1 3 7 3: - - - - cfp.rctx dvp.rctx - cpp.rctx
1 3 7 4: - dc.zva - dc.gva dc.gzva
1 3 7 5: - ic.ivau
1 3 7 10: - dc.cvac - dc.cgvac - dc.cgdvac
1 3 7 11: - dc.cvau
1 3 7 12: - dc.cvap - dc.cgvap - dc.cgdvap
1 3 7 13: - dc.cvadp - dc.cgvadp - dc.cgdvadp
1 3 7 14: - dc.civac - dc.cigvac - dc.cigdvac
1 4 7 8: at.s1e2r at.s1e2w - - at.s12e1r at.s12e1w at.s12e0r at.s12e0w
1 4 8 0: - tlbi.ipas2e1is tlbi.ripas2e1is - - tlbi.ipas2le1is tlbi.ripas2le1is
1 4 8 1: tlbi.alle2os= tlbi.vae2os - - tlbi.alle1os= tlbi.vale2os tlbi.vmalls12e1os=
1 4 8 2: - tlbi.rvae2is - - - tlbi.rvale2is
1 4 8 3: tlbi.alle2is= tlbi.vae2is - - tlbi.alle1is= tlbi.vale2is tlbi.vmalls12e1is=
1 4 8 4: tlbi.ipas2e1os tlbi.ipas2e1 tlbi.ripas2e1 tlbi.ripas2e1os tlbi.ipas2le1os
1 4 8 4: - - - - - tlbi.ipas2le1 tlbi.ripas2le1 tlbi.ripas2le1os
1 4 8 5: - tlbi.rvae2os - - - tlbi.rvale2os
1 4 8 6: - tlbi.rvae2 - - - tlbi.rvale2
1 4 8 7: tlbi.alle2= tlbi.vae2 - - tlbi.alle1= tlbi.vale2 tlbi.vmalls12e1=
1 6 7 8: at.s1e3r at.s1e3w
1 6 7 14: - dc.cipapa - - - dc.cigdpapa
1 6 8 1: tlbi.alle3os= tlbi.vae3os - - tlbi.paallos= tlbi.vale3os
1 6 8 2: - tlbi.rvae3is - - - tlbi.rvale3is
1 6 8 3: tlbi.alle3is= tlbi.vae3is - - - tlbi.vale3is
1 6 8 4: - - - tlbi.rpaos - - - tlbi.rpalos
1 6 8 5: - tlbi.rvae3os - - - tlbi.rvale3os
1 6 8 6: - tlbi.rvae3 - - - tlbi.rvale3
1 6 8 7: tlbi.alle3= tlbi.vae3 - - tlbi.paall= tlbi.vale3
2 0 0 0: - - osdtrrx_el1
2 0 0 0 4 8: dbgbvr[0-15]_el1
2 0 0 0 5 8: dbgbcr[0-15]_el1
2 0 0 0 6 8: dbgwvr[0-15]_el1
2 0 0 0 7 8: dbgwcr[0-15]_el1
2 0 0 2: mdccint_el1 - mdscr_el1
2 0 0 3: - - osdtrtx_el1
2 0 0 6: - - oseccr_el1
2 0 1 0: mdrar_el1< - - - oslar_el1>
2 0 1 1: - - - - oslsr_el1<
2 0 1 3: - - - - osdlr_el1
2 0 1 4: - - - - dbgprcr_el1
2 0 7 8: - - - - - - dbgclaimset_el1
2 0 7 9: - - - - - - dbgclaimclr_el1
2 0 7 14: - - - - - - dbgauthstatus_el1<
2 1 0 0: - trctraceidr trcvictlr - trcseqevr0
2 1 0 0 5 8: trccntrldvr[0-3]
2 1 0 0 6 8: trcidr[8-13]<
2 1 0 0 7 8: trcimspec[0-7]
2 1 0 1: trcprgctlr trcqctlr trcviiectlr - trcseqevr1
2 1 0 2: trcprocselr - trcvissctlr - trcseqevr2
2 1 0 3: trcstatr< - trcvipcssctlr
2 1 0 4: trcconfigr
2 1 0 4 5 8: trccntctlr[0-3]
2 1 0 6: trcauxctlr - - - trcseqrstevr
2 1 0 7: - - - - trcseqstr
2 1 0 8: trceventctl0r - trcvdctlr
2 1 0 8 4 8: trcextinselr[0-3]
2 1 0 8 5 8: trccntvr[0-3]
2 1 0 8 7 8: trcidr[0-7]<
2 1 0 9: trceventctl1r - trcvdsacctlr
2 1 0 10: trcrsr - trcvdarcctlr
2 1 0 11: trcstallctlr
2 1 0 12: trctsctlr
2 1 0 13: trcsyncpr
2 1 0 14: trcccctlr
2 1 0 15: trcbbctlr
2 1 1 0: - - - - trcoslar>
2 1 1 0 1 8: trcrsctlr[16-31]
2 1 1 0 2 8: trcssccr[0-7]
2 1 1 0 3 8: trcsspcicr[0-7]
2 1 1 1: - - - - trcoslsr<
2 1 1 2 0 8: trcrsctlr[2-15]
2 1 1 4: - - - - trcpdcr
2 1 1 5: - - - - trcpdsr<
2 1 1 8 2 8: trcsscsr[0-7]
2 1 2 0 0 16: trcacvr[0-7]
2 1 2 0 1 16: trcacvr[8-15]
2 1 2 0 2 16: trcacatr[0-7]
2 1 2 0 3 16: trcacatr[8-15]
2 1 2 0 4 32: trcdvcvr[0-3]
2 1 2 0 5 32: trcdvcvr[4-7]
2 1 2 0 6 32: trcdvcmr[0-3]
2 1 2 0 7 32: trcdvcmr[4-7]
2 1 3 0 0 16: trccidcvr[0-7]
2 1 3 0: - - trccidcctlr0
2 1 3 0 1 16: trcvmidcvr[0-7]
2 1 3 1: - - trccidcctlr1
2 1 3 2: - - trcvmidcctlr0
2 1 3 3: - - trcvmidcctlr1
2 1 7 0: - - - - trcitctrl
2 1 7 2: - - - - - - - trcdevid<
2 1 7 3: - - - - - - - trcdevtype<
2 1 7 4 7 8: trcpidr[4-7]<
2 1 7 8: - - - - - - trcclaimset
2 1 7 8 7 8: trcpidr[0-3]<
2 1 7 9: - - - - - - trcclaimclr
2 1 7 10: - - - - - - trcdevaff0<
2 1 7 11: - - - - - - trcdevaff1<
2 1 7 12: - - - - - - trclar>
2 1 7 12 7 8: trccidr[0-3]<
2 1 7 13: - - - - - - trclsr<
2 1 7 14: - - - - - - trcauthstatus<
2 1 7 15: - - - - - - trcdevarch<
2 1 8 0 0 8: brbinf[0-15]_el1<
2 1 8 0 1 8: brbsrc[0-15]_el1<
2 1 8 0 2 8: brbtgt[0-15]_el1<
2 1 8 0 4 8: brbinf[16-31]_el1<
2 1 8 0 5 8: brbsrc[16-31]_el1<
2 1 8 0 6 8: brbtgt[16-31]_el1<
2 1 9 0: brbcr_el1 brbfcr_el1 brbts_el1
2 1 9 1: brbinfinj_el1 brbsrcinj_el1 brbtgtinj_el1
2 1 9 2: brbidr0_el1<
2 2 0 0: teecr32_el1
2 2 1 0: teehbr32_el1
2 3 0 1: mdccsr_el0<
2 3 0 4: dbgdtr_el0
2 3 0 5: dbgdtrrx_el0/dbgdtrtx_el0
2 4 0 7: dbgvcr32_el2
2 4 9 0: brbcr_el2
2 5 9 0: brbcr_el12
3 0 0 0: midr_el1< - - - - mpidr_el1< revidr_el1<
3 0 0 1: id_pfr0_el1< id_pfr1_el1< id_dfr0_el1< id_afr0_el1<
3 0 0 1 4 1: id_mmfr[0-3]_el1<
3 0 0 2 0 1: id_isar[0-5]_el1<
3 0 0 2: - - - - - - id_mmfr4_el1< id_isar6_el1<
3 0 0 3: mvfr0_el1< mvfr1_el1< mvfr2_el1< - id_pfr2_el1< id_dfr1_el1< id_mmfr5_el1<
3 0 0 4: id_aa64pfr0_el1< id_aa64pfr1_el1< - - id_aa64zfr0_el1< id_aa64smfr0_el1<
3 0 0 5: id_aa64dfr0_el1< id_aa64dfr1_el1< - - id_aa64afr0_el1< id_aa64afr1_el1<
3 0 0 6: id_aa64isar0_el1< id_aa64isar1_el1< id_aa64isar2_el1<
3 0 0 7: id_aa64mmfr0_el1< id_aa64mmfr1_el1< id_aa64mmfr2_el1<
3 0 1 0: sctlr_el1 actlr_el1 cpacr_el1 - - rgsr_el1 gcr_el1
3 0 1 2: zcr_el1 trfcr_el1 - - smpri_el1 - smcr_el1
3 0 2 0: ttbr0_el1 ttbr1_el1 tcr_el1
3 0 2 1: apiakeylo_el1 apiakeyhi_el1 apibkeylo_el1 apibkeyhi_el1
3 0 2 2: apdakeylo_el1 apdakeyhi_el1 apdbkeylo_el1 apdbkeyhi_el1
3 0 2 3: apgakeylo_el1 apgakeyhi_el1
3 0 4 0: spsr_el1 elr_el1
3 0 4 1: sp_el0
3 0 4 2: spsel - currentel< pan uao
3 0 4 3: allint
3 0 4 6: icc_pmr_el1
3 0 5 1: afsr0_el1 afsr1_el1
3 0 5 2: esr_el1
3 0 5 3: erridr_el1< errselr_el1
3 0 5 4: erxfr_el1< erxctlr_el1 erxstatus_el1 erxaddr_el1 erxpfgf_el1< erxpfgctl_el1 erxpfgcdn_el1
3 0 5 5 0 1: erxmisc[0-3]_el1
3 0 5 6: tfsr_el1 tfsre0_el1
3 0 6 0: far_el1
3 0 7 4: par_el1
3 0 9 9: pmscr_el1 pmsnevfr_el1 pmsicr_el1 pmsirr_el1 pmsfcr_el1 pmsevfr_el1 pmslatfr_el1 pmsidr_el1<
3 0 9 10: pmblimitr_el1 pmbptr_el1 - pmbsr_el1 - - - pmbidr_el1<
3 0 9 11: trblimitr_el1 trbptr_el1 trbbaser_el1 trbsr_el1 trbmar_el1 - trbtrg_el1 trbidr_el1<
3 0 9 14: - pmintenset_el1 pmintenclr_el1 - - - pmmir_el1
3 0 10 2: mair_el1
3 0 10 3: amair_el1
3 0 10 4: lorsa_el1 lorea_el1 lorn_el1 lorc_el1 mpamidr_el1< - - lorid_el1<
3 0 10 5: mpam1_el1 mpam0_el1 - mpamsm_el1
3 0 12 0: vbar_el1 rvbar_el1< rmr_el1
3 0 12 1: isr_el1< disr_el1
3 0 12 8: icc_iar0_el1< icc_eoir0_el1> icc_hppir0_el1< icc_bpr0_el1
3 0 12 8 4 1: icc_ap0r[0-3]_el1
3 0 12 9 0 1: icc_ap1r[0-3]_el1
3 0 12 9: - - - - - icc_nmiar1_el1<
3 0 12 11: - icc_dir_el1> - icc_rpr_el1< - icc_sgi1r_el1> icc_asgi1r_el1> icc_sgi0r_el1>
3 0 12 12: icc_iar1_el1< icc_eoir1_el1> icc_hppir1_el1< icc_bpr1_el1 icc_ctlr_el1
3 0 12 12: - - - - - icc_sre_el1 icc_igrpen0_el1 icc_igrpen1_el1
3 0 13 0: - contextidr_el1 - - tpidr_el1 accdata_el1 - scxtnum_el1
3 0 14 1: cntkctl_el1
3 1 0 0: ccsidr_el1< clidr_el1< ccsidr2_el1< - gmid_el1< - smidr_el1< aidr_el1<
3 2 0 0: csselr_el1
3 3 0 0: - ctr_el0< - - - - - dczid_el0<
3 3 2 4: rndr< rndrrs<
3 3 4 2: nzcv daif svcr - - dit ssbs tco
3 3 4 4: fpcr fpsr
3 3 4 5: dspsr_el0 dlr_el0
3 3 9 12: pmcr_el0 pmcntenset_el0 pmcntenclr_el0 pmovsclr_el0 pmswinc_el0>
3 3 9 12: - - - - - pmselr_el0 pmceid0_el0< pmceid1_el0<
3 3 9 13: pmccntr_el0 pmxevtyper_el0 pmxevcntr_el0
3 3 9 14: pmuserenr_el0 - - pmovsset_el0
3 3 13 0: - - tpidr_el0 tpidrro_el0 - tpidr2_el0 - scxtnum_el0
3 3 13 2: amcr_el0 amcfgr_el0< amcgcr_el0< amuserenr_el0 amcntenclr0_el0 amcntenset0_el0 amcg1idr_el0<
3 3 13 3: amcntenclr1_el0 amcntenset1_el0
3 3 13 4 0 1: amevcntr0[0-3]_el0
3 3 13 6 0 1: amevtyper0[0-3]_el0<
3 3 13 12 0 1: amevcntr1[0-15]_el0
3 3 13 14 0 1: amevtyper1[0-15]_el0
3 3 14 0: cntfrq_el0 cntpct_el0< cntvct_el0< - - cntpctss_el0 cntvctss_el0
3 3 14 2: cntp_tval_el0 cntp_ctl_el0 cntp_cval_el0
3 3 14 3: cntv_tval_el0 cntv_ctl_el0 cntv_cval_el0
3 3 14 8 0 1: pmevcntr[0-30]_el0
3 3 14 12 0 1: pmevtyper[0-30]_el0
3 3 14 15: - - - - - - - pmccfiltr_el0
3 4 0 0: vpidr_el2 - - - - vmpidr_el2
3 4 1 0: sctlr_el2 actlr_el2
3 4 1 1: hcr_el2 mdcr_el2 cptr_el2 hstr_el2 hfgrtr_el2 hfgwtr_el2 hfgitr_el2 hacr_el2
3 4 1 2: zcr_el2 trfcr_el2 hcrx_el2 - - smprimap_el2 smcr_el2
3 4 1 3: - sder32_el2
3 4 2 0: ttbr0_el2 ttbr1_el2 tcr_el2
3 4 2 1: vttbr_el2 - vtcr_el2
3 4 2 2: vncr_el2
3 4 2 6: vsttbr_el2 - vstcr_el2
3 4 3 0: dacr32_el2
3 4 3 1: - - - - hdfgrtr_el2 hdfgwtr_el2 hafgrtr_el2
3 4 4 0: spsr_el2 elr_el2
3 4 4 1: sp_el1
3 4 4 3: spsr_irq spsr_abt spsr_und spsr_fiq
3 4 5 0: - ifsr32_el2
3 4 5 1: afsr0_el2 afsr1_el2
3 4 5 2: esr_el2 - - vsesr_el2
3 4 5 3: fpexc32_el2
3 4 5 6: tfsr_el2
3 4 6 0: far_el2 - - - hpfar_el2
3 4 9 9: pmscr_el2
3 4 10 2: mair_el2
3 4 10 3: amair_el2
3 4 10 4: mpamhcr_el2 mpamvpmv_el2
3 4 10 5: mpam2_el2
3 4 10 6 0 1: mpamvpm[0-7]_el2
3 4 12 0: vbar_el2 rvbar_el2< rmr_el2
3 4 12 1: - vdisr_el2
3 4 12 8 0 1: ich_ap0r[0-3]_el2
3 4 12 9 0 1: ich_ap1r[0-3]_el2
3 4 12 9: - - - - - icc_sre_el2
3 4 12 11: ich_hcr_el2 ich_vtr_el2< ich_misr_el2< ich_eisr_el2< - ich_elrsr_el2< - ich_vmcr_el2
3 4 12 12 0 1: ich_lr[0-15]_el2
3 4 13 0: - contextidr_el2 tpidr_el2 - - - - scxtnum_el2
3 4 13 8 0 1: amevcntvoff0[0-15]_el2
3 4 13 10 0 1: amevcntvoff1[0-15]_el2
3 4 14 0: - - - cntvoff_el2 - - cntpoff_el2
3 4 14 1: cnthctl_el2
3 4 14 2: cnthp_tval_el2 cnthp_ctl_el2 cnthp_cval_el2
3 4 14 3: cnthv_tval_el2 cnthv_ctl_el2 cnthv_cval_el2
3 4 14 4: cnthvs_tval_el2 cnthvs_ctl_el2 cnthvs_cval_el2
3 4 14 5: cnthps_tval_el2 cnthps_ctl_el2 cnthps_cval_el2
3 5 1 0: sctlr_el12 - cpacr_el12
3 5 1 2: zcr_el12 trfcr_el12 - - - - smcr_el12
3 5 2 0: ttbr0_el12 ttbr1_el12 tcr_el12
3 5 4 0: spsr_el12 elr_el12
3 5 5 1: afsr0_el12 afsr1_el12
3 5 5 2: esr_el12
3 5 5 6: tfsr_el12
3 5 6 0: far_el12
3 5 9 9: pmscr_el12
3 5 10 2: mair_el12
3 5 10 3: amair_el12
3 5 10 5: mpam1_el12
3 5 12 0: vbar_el12
3 5 13 0: - contextidr_el12 - - - - - scxtnum_el12
3 5 14 1: cntkctl_el12
3 5 14 2: cntp_tval_el02 cntp_ctl_el02 cntp_cval_el02
3 5 14 3: cntv_tval_el02 cntv_ctl_el02 cntv_cval_el02
3 6 1 0: sctlr_el3 actlr_el3
3 6 1 1: scr_el3 sder32_el3 cptr_el3
3 6 1 2: zcr_el3 - - - - - smcr_el3
3 6 1 3: - mdcr_el3
3 6 2 0: ttbr0_el3 - tcr_el3
3 6 2 1: - - - - gptbr_el3 - gpccr_el3
3 6 4 0: spsr_el3 elr_el3
3 6 4 1: sp_el2
3 6 5 1: afsr0_el3 afsr1_el3
3 6 5 2: esr_el3
3 6 5 6: tfsr_el3
3 6 6 0: far_el3 - - - - mfar_el3
3 6 10 2: mair_el3
3 6 10 3: amair_el3
3 6 10 5: mpam3_el3
3 6 12 0: vbar_el3 rvbar_el3< rmr_el3
3 6 12 12: - - - - icc_ctlr_el3 icc_sre_el3 - icc_igrpen1_el3
3 6 13 0: - - tpidr_el3 - - - - scxtnum_el3
3 7 14 2: cntps_tval_el1 cntps_ctl_el1 cntps_cval_el1
"""

"""Outside oracles for A64 words and short basic blocks: QEMU user mode, Unicorn, and KVRM in the same terms.

`case` says what a case and its outcome are, `operands` chooses states worth trying, and `qemu`,
`unicorn_oracle` and `kvrm_side` turn cases into outcomes. `case.differences` compares two of them.
"""

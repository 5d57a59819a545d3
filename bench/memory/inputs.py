"""Inputs of `record.sh`, the same each time: `inputs.py DIR`."""

import random
import sys
from pathlib import Path

PYTHON = """
d={}
x=1
for i in range(120000):
    x=(x*6364136223846793005+1442695040888963407)&0xFFFFFFFFFFFFFFFF
    d[x>>40]=d.get(x>>41,0)+i
l=sorted(d)
print(len(l),sum(d[k] for k in l[::3]))
"""
SQL = """create table t(a integer primary key, b integer, c text);
with recursive n(i) as (select 1 union all select i+1 from n where i<60000)
insert into t select i,(i*2654435761)%1000003,'row'||((i*40503)%65521) from n;
create index tb on t(b); create index tc on t(c);
select count(*),sum(length(c)) from t where b between 1000 and 400000;
select count(*) from t x join t y on x.b=y.a;
select c,count(*) from t group by c order by 2 desc,1 limit 3;
"""
LUA = {
    "t": "local t={} local x=1 for i=1,150000 do x=(x*1103515245+12345)%2147483648 t[x]={i,x} end "
    "local n=0 for k,v in pairs(t) do n=n+v[1]*(k%7) end "
    "local s={} for k in pairs(t) do s[#s+1]=k end table.sort(s) print(n,#s,s[1])",
    "trees": "local function make(d) if d==0 then return {1} end return {make(d-1),make(d-1)} end "
    "local function sum(t) if #t==1 then return 1 end return sum(t[1])+sum(t[2]) end "
    "local s=0 for i=1,20 do s=s+sum(make(14)) end print(s)",
    "words": "local w={} local x=7 for i=1,60000 do x=(x*1103515245+12345)%2147483648 "
    'w[i]="w"..(x%20011).."_"..(x%77) end local n={} for _,v in ipairs(w) do n[v]=(n[v] or 0)+1 end '
    "local k={} for v in pairs(n) do k[#k+1]=v end "
    "table.sort(k,function(a,b) return n[a]>n[b] or n[a]==n[b] and a<b end) "
    'print(#k,k[1],table.concat(k,","):len())',
    "matrix": "local N=300 local a,b={},{} for i=1,N do a[i],b[i]={},{} "
    "for j=1,N do a[i][j]=i*j%7 b[i][j]=(i+j)%5 end end "
    "local s=0 for i=1,N do for j=1,N do local t=0 for k=1,N do t=t+a[i][k]*b[k][j] end s=s+t end end "
    "print(s)",
}


def main(directory: Path) -> None:
    rng = random.Random(1)
    words = [f"w{i}" for i in range(30000)]
    lines = [f"{rng.randrange(10**9)} {rng.choice(words)} {rng.random()}\n" for _ in range(60000)]
    (directory / "lines.txt").write_text("".join(lines))
    (directory / "lines2.txt").write_text("".join(rng.sample(lines, 50000)))
    (directory / "p.py").write_text(PYTHON)
    (directory / "q.sql").write_text(SQL)
    for name, text in LUA.items():
        (directory / f"{name}.lua").write_text(text + "\n")


main(Path(sys.argv[1]))

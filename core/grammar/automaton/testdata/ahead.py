"""Writes ahead.json: whether Python's re and ECMA-262 (node) find expressions with
(?=…) and (?!…) in random texts.

    python ahead.py ahead.json
"""
import json
import random
import re
import subprocess
import sys

exprs=[r"^(?!tmp)", r"^(?!a$)[ab]+$", r"^(?=.*[A-Z])(?=.*\d).{3,}$", r"^(?!^[-+.]*$)[+-]?0*\d*\.?\d*$", r"^(?!\.)(?!.*\.\.)([A-Za-z0-9_'+\-\.]*)[A-Za-z0-9_+-]@([A-Za-z0-9][A-Za-z0-9\-]*\.)+[A-Za-z]{2,}$", r"^(?!.*--)[a-z-]+$", r"^(?=a|b)(?:ab|ba|c)$", r"^(?![\d])\w*$", r"^(?!\S)", r"^(?!.$)"]
random.seed(4)
al=list("aabbAB019._-+@ \n\r\u2028é\u0663\u00a0tmp")
rows=[]
for e in exprs:
    for _ in range(160):
        t="".join(random.choice(al) for _ in range(random.randrange(9)))
        if random.random()<.3: t=random.choice(["tmp","tmpx","a","b","aB1","aB","x.y@ab.cd","x..y@ab.cd",".x@a.bc","--","a--b","a-b","+1.5","+.","","1","12.","0\n","ab","ba","c","a\n"])
        rows.append([e,t])
py=[bool(re.search(e,t)) for e,t in rows]
js=json.loads(subprocess.run(["node","-e","const r=JSON.parse(require('fs').readFileSync(0));console.log(JSON.stringify(r.map(([e,t])=>new RegExp(e,'u').test(t))))"],input=json.dumps(rows),capture_output=True,text=True).stdout or "[]")
if not js:
    js=json.loads(subprocess.run(["node","-e","const r=JSON.parse(require('fs').readFileSync(0));console.log(JSON.stringify(r.map(([e,t])=>{try{return new RegExp(e,'u').test(t)}catch(x){return new RegExp(e).test(t)}})))"],input=json.dumps(rows),capture_output=True,text=True).stdout)
out=sorted({(e,t,p,j) for (e,t),p,j in zip(rows,py,js)})
json.dump([dict(expr=e,text=t,python=p,ecma=j) for e,t,p,j in out],open(sys.argv[1],'w'),ensure_ascii=True,separators=(',',':'))
print(len(out),sum(p!=j for e,t,p,j in out))

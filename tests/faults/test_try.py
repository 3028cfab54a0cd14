import time, signal, os, pytest
from tests.faults.world import *
def test_a(new_world):
    w=new_world()
    s=w.scheduler()
    for n in range(6):
        k=w.worker(**({} if n%2 else {"redis_url":w.redis.url}))
        j=w.submit(MINING|{"trees":20000}); w.under_way(j)
        k.signal(signal.SIGTERM)
        t=time.time()
        try: c=k.exit_code(20)
        except Exception as e: c=repr(e)
        print(n, c, time.time()-t)
        if isinstance(c,str):
            lines=k.log.splitlines()
            i=[n for n,l in enumerate(lines) if "Warm" in l]
            print(i,len(lines)); print("\n".join(lines[i[0]-6 if i else -20:][:60]))
            for p in [psutil.Process(k.pid)]+psutil.Process(k.pid).children():
                print(p.pid, p.status(), p.cpu_times(), open(f"/proc/{p.pid}/wchan").read())
                print([ (c.laddr.port,c.raddr.port if c.raddr else 0,c.status) for c in p.net_connections()])
                k2=os.system(f"cat /proc/{p.pid}/stack 2>/dev/null | head -5")
        w.ask("cancel", j)
        k.end()

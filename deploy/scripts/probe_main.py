# Running processes, and all facts together.

def processes(names):
    """Processes of this interpreter's environment that have an engine in their
    arguments, without those that such a process started."""
    exe = os.path.realpath(sys.executable)
    wanted = [os.fsencode(n) for n in names if n]
    try:
        # Not from btime of /proc/stat, which is in whole seconds.
        boot, tick = time.time() - float(read("/proc/uptime").split()[0]), os.sysconf("SC_CLK_TCK")
        pids = [p for p in os.listdir("/proc") if p.isdigit() and int(p) != os.getpid()]
    except (OSError, ValueError, IndexError):
        return []
    found = {}
    for pid in pids:
        try:
            argv = read("/proc/%s/cmdline" % pid).rstrip(b"\0").split(b"\0")
            # A long argument is a program text, such as our own, not a name.
            if not any(w in a for a in argv if len(a) < 1024 for w in wanted):
                continue
            if not same_environment(pid, argv, exe):
                continue
            st = os.stat("/proc/" + pid)
            fields = read("/proc/%s/stat" % pid).rsplit(b")", 1)[1].split()
        except (OSError, IndexError):
            continue
        if fields[0] in (b"Z", b"X"):
            continue
        found[int(pid)] = int(fields[1]), {
            "pid": int(pid), "user": owner(st.st_uid), "started": boot + int(fields[19]) / tick,
            "argv": [a.decode("utf-8", "replace") for a in argv],
        }
    return [process for parent, process in found.values() if parent not in found]


def same_environment(pid, argv, exe):
    """Whether a process runs in this interpreter's environment: all virtual
    environments of one Python share its executable, so the path it was started
    by, or its VIRTUAL_ENV, has to tell them apart."""
    try:
        if os.path.realpath(os.readlink("/proc/%s/exe" % pid)) != exe:
            return False
    except OSError:
        return True  # another user's: its arguments have to do
    prefix = os.path.realpath(sys.prefix)
    if argv[0].startswith(b"/"):
        return os.path.realpath(os.path.dirname(os.path.dirname(os.fsdecode(argv[0])))) == prefix
    try:
        for entry in read("/proc/%s/environ" % pid).split(b"\0"):
            if entry.startswith(b"VIRTUAL_ENV="):
                return os.path.realpath(os.fsdecode(entry[12:])) == prefix
    except OSError:
        pass
    return True


def main():
    targets = []
    for t in ASK["targets"]:
        if t.get("module"):
            found, searched, error = find_module(t["module"])
        else:
            p = t["path"]
            p = HOME + p[1:] if p == "~" or p.startswith("~/") else p
            found, searched, error = (p, [], "") if os.path.isfile(p) else ("", [p], "")
        real = os.path.realpath(found) if found else ""
        targets.append({"found": found, "real": real, "searched": searched, "error": error})
        if real and t.get("outline"):
            WANT_OUTLINE.add(real)
    for t in targets:
        if t["real"]:
            file_facts(t["real"])
    for top in ASK["walk"]:
        for folder in top_level(top)[0]:
            for here, _, names in os.walk(os.path.realpath(folder)):
                if ".specrun-claim" in names:
                    folder_facts(here)
    state_facts(STATE)
    for folder in list(FOLDERS.values()):
        if folder["claim"] and folder["claim"]["state_dir"].startswith("/"):
            state_facts(folder["claim"]["state_dir"])
    patched = False
    for s in list(STATES.values()):
        s["sweeps"] = sweeps(s["path"])
        for doc in s["ledgers"]:
            ledger = doc.get("json") or {}
            if isinstance(ledger.get("path"), str) and ledger["path"].startswith("/"):
                file_facts(ledger["path"])
            if ledger.get("stack"):
                patched = True
                blob(s, str(ledger.get("pristine_sha256")))
                for layer in ledger["stack"]:
                    blob(s, str(layer.get("blob")))
        for sha in ASK["blobs"]:
            path = os.path.join(s["path"], "blobs", sha)
            if sha not in s["blobs"] and os.path.isfile(path):
                s["blobs"][sha] = ""
        for doc in s["transactions"]:
            for f in (doc.get("json") or {}).get("files") or []:
                file_facts(f["path"])
                f["stage_sha256"] = digest(f["stage"])
                f["pre_blob"] = digest(os.path.join(s["path"], "blobs", f["pre"])) == f["pre"]
    engines = {}
    for top, (folders, origin, _) in TOPS.items():
        if folders or origin:
            engines[top] = engine(top, folders)
    out = {
        "interpreter": sys.executable, "version": sys.version.split()[0], "prefix": sys.prefix,
        "sys_path": [os.path.realpath(p or os.getcwd()) for p in sys.path],
        "user": owner(os.geteuid()), "uid": os.geteuid(), "home": HOME, "host_id": host_id(), "now": NOW, "state_dir": STATE,
        "targets": targets, "files": list(FILES.values()), "folders": FOLDERS, "states": list(STATES.values()),
        "engines": engines, "processes": processes(ASK["engines"]) if patched else [],
    }
    sys.stdout.write("\n%s %s\n" % (MARK, json.dumps(out)))


def sweeps(state):
    """The leases on patch sets that a state folder holds, by the layout of
    deploy/server/scripts/lease.sh: whose they are while they have not expired."""
    found = []
    locks = os.path.join(state, "locks")
    for name in sorted(os.listdir(locks)) if os.path.isdir(locks) else []:
        if not name.startswith("patches-"):
            continue
        generations = [int(d[5:]) for d in os.listdir(os.path.join(locks, name)) if d[:5] == "lock." and d[5:].isdigit()]
        if not generations:
            continue
        lock = os.path.join(locks, name, "lock.%d" % max(generations))
        expires = text(os.path.join(lock, "expires"))
        if not os.path.exists(os.path.join(lock, "released")) and expires.isdigit() and int(expires) > NOW:
            found.append(text(os.path.join(lock, "what")))
    return found


def digest(path):
    try:
        return sha256(read(path)).hexdigest()
    except OSError:
        return ""


main()

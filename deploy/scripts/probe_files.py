# What there is to know about one file and its folder.

MOUNTS = []


def mounts():
    if not MOUNTS:
        try:
            for line in read("/proc/self/mountinfo").decode("utf-8", "surrogateescape").splitlines():
                left, _, right = line.partition(" - ")
                f = left.split(" ")
                point = f[4]
                for code, char in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
                    point = point.replace(code, char)
                MOUNTS.append((point, right.split(" ")[0], f[5].split(",")))
        except OSError:
            pass
        MOUNTS.append(("", "", []))
    return MOUNTS


def mount_of(path):
    best = ("", "", [])
    for m in mounts():
        inside = m[0] == "/" or path == m[0] or path.startswith(m[0] + "/")
        if inside and m[0] and len(m[0]) >= len(best[0]):
            best = m
    return {"type": best[1], "point": best[0], "read_only": "ro" in best[2]}


def frozen(path):
    """True when the immutable or append-only flag is set (chattr +i, +a)."""
    try:
        import array
        import fcntl

        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        try:
            flags = array.array("l", [0])
            fcntl.ioctl(fd, 0x80086601 if flags.itemsize == 8 else 0x80046601, flags, True)
            return bool(flags[0] & 0x30)
        finally:
            os.close(fd)
    except (ImportError, OSError):
        return False


def space(folder):
    while not os.path.isdir(folder) and os.path.dirname(folder) != folder:
        folder = os.path.dirname(folder)
    try:
        v = os.statvfs(folder)
    except OSError:
        return {"free": -1, "inodes": -1, "device": 0}
    return {
        "free": v.f_bavail * v.f_frsize,
        "inodes": v.f_favail if v.f_files else -1,
        "device": os.stat(folder).st_dev,
    }


def outline(data):
    """Classes with bases and methods, and functions, at module level. Node types
    go by name: importing ast would take longer than parsing."""
    out = {"classes": {}, "functions": [], "syntax_ok": True}
    try:
        tree = compile(data, "outline", "exec", 0x400, True)  # PyCF_ONLY_AST
    except (SyntaxError, ValueError):
        out["syntax_ok"] = False
        return out

    def kind(n):
        return type(n).__name__

    def definitions(nodes):
        for n in nodes:
            yield n
            if kind(n) in ("If", "Try", "TryStar", "With", "ExceptHandler"):
                for part in ("body", "orelse", "finalbody", "handlers"):
                    for d in definitions(getattr(n, part, [])):
                        yield d

    def dotted(n):
        if kind(n) == "Name":
            return n.id
        if kind(n) == "Attribute":
            return dotted(n.value) + "." + n.attr
        return "?"

    functions = ("FunctionDef", "AsyncFunctionDef")
    for n in definitions(tree.body):
        if kind(n) in functions:
            out["functions"].append(n.name)
        elif kind(n) == "ClassDef":
            methods = [d.name for d in definitions(n.body) if kind(d) in functions]
            out["classes"][n.name] = {"bases": [dotted(b) for b in n.bases], "methods": methods}
    return out


def cached(path):
    """Compiled copies of one source, and whether any never looks at it again."""
    import glob

    folder, name = os.path.split(path)
    stem = glob.escape(name[:-3] if name.endswith(".py") else name)
    places = [os.path.join(folder, "__pycache__")]
    if getattr(sys, "pycache_prefix", None):
        places.append(os.path.join(sys.pycache_prefix, folder.lstrip("/")))
    stuck = []
    for place in places:
        if os.path.isdir(place) and not can_write(place):
            for pyc in glob.glob(os.path.join(glob.escape(place), stem + ".*.pyc")):
                try:
                    head = open(pyc, "rb").read(8)
                except OSError:
                    head = b"\0" * 8
                if head[4:5] in (b"\x01",):  # hash-based and never checked
                    stuck.append(pyc)
    return places[1:], stuck


URLSAFE = bytes.maketrans(b"-_", b"+/")


def release_of(path):
    """What the installed release says about a file, from its RECORD."""
    for root in sys.path:
        root = os.path.realpath(root or os.getcwd())
        if not path.startswith(root + "/"):
            continue
        rel = path[len(root) + 1:]
        for info in dist_infos(root, rel.split("/")[0]):
            try:
                record = read(os.path.join(info, "RECORD"))
            except OSError:
                continue
            at = record.find(b"\n" + os.fsencode(rel) + b",sha256=")
            if at < 0 and record.startswith(os.fsencode(rel) + b",sha256="):
                at = -1
            elif at < 0:
                continue
            row = record[at + 1:].split(b"\n", 1)[0]
            value = row.rsplit(b",", 2)[1][len(b"sha256="):].strip()
            name, version = identity(info)
            try:
                want = a2b_base64(value.translate(URLSAFE) + b"=" * (-len(value) % 4)).hex()
            except ValueError:
                want = ""
            return {"name": name, "version": version, "sha256": want, "source": "record"}
    return None


def dist_infos(root, top):
    import glob

    wanted = os.path.join(glob.escape(root), glob.escape(top) + "-*.dist-info")
    first = sorted(glob.glob(wanted))
    for info in first:
        yield info
    for info in sorted(glob.glob(os.path.join(glob.escape(root), "*.dist-info"))):
        if info not in first:
            yield info


def identity(info):
    """Name and version of a distribution, from the head of its METADATA."""
    name = version = ""
    try:
        with open(os.path.join(info, "METADATA"), encoding="utf-8", errors="replace") as f:
            for line in f:
                if line.strip() == "" or (name and version):
                    break
                if line.startswith("Name:"):
                    name = line[5:].strip()
                elif line.startswith("Version:"):
                    version = line[8:].strip()
    except OSError:
        pass
    return name, version


def git_of(path):
    """Whether a file of a source checkout differs from what is committed."""
    folder = os.path.dirname(path)
    while not os.path.exists(os.path.join(folder, ".git")):
        up = os.path.dirname(folder)
        if up == folder:
            return None
        folder = up
    import subprocess

    env = dict(os.environ, GIT_OPTIONAL_LOCKS="0", LC_ALL="C")
    try:
        p = subprocess.run(
            ["git", "-C", folder, "status", "--porcelain", "--ignored", "--", path],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            timeout=20, env=env,
        )
    except (OSError, subprocess.SubprocessError):
        return {"root": folder, "state": "unknown"}
    if p.returncode != 0:
        return {"root": folder, "state": "unknown"}
    out = p.stdout.decode("utf-8", "replace")
    state = "clean" if not out.strip() else "untracked" if out[:2] in ("??", "!!") else "modified"
    return {"root": folder, "state": state}


def claim_of(folder):
    path = os.path.join(folder, ".specrun-claim")
    try:
        st = os.lstat(path)
    except OSError:
        return None
    lines = text(path).split("\n") + ["", "", ""]
    claim = {"user": lines[0], "state_dir": lines[1], "host_id": lines[2], "owner": owner(st.st_uid)}
    claim["mine"] = st.st_uid == os.geteuid()
    return claim


def stages_of(folder):
    found = []
    try:
        names = os.listdir(folder)
    except OSError:
        return found
    for name in sorted(names):
        if name.startswith(".specrun-") and name != ".specrun-claim":
            path = os.path.join(folder, name)
            try:
                st = os.lstat(path)
            except OSError:
                continue
            if stat.S_ISDIR(st.st_mode):
                mine = st.st_uid == os.geteuid()
                found.append({"id": name[len(".specrun-"):], "age": NOW - st.st_mtime, "mine": mine})
    return found


NOW = time.time()
FILES = {}
FOLDERS = {}
WANT_OUTLINE = set()


def folder_facts(folder):
    if folder not in FOLDERS:
        FOLDERS[folder] = {"claim": claim_of(folder), "stages": stages_of(folder)}


def file_facts(path):
    """path is a real path. Facts are kept, so asking twice costs nothing."""
    if path in FILES:
        return
    folder = os.path.dirname(path)
    folder_facts(folder)
    f = {"path": path, "exists": False}
    FILES[path] = f
    try:
        st = os.stat(path)
        data = read(path)
    except OSError as e:
        f["error"] = "" if isinstance(e, FileNotFoundError) else str(e)
        return
    f.update(
        exists=True, size=st.st_size, sha256=sha256(data).hexdigest(),
        mode=stat.S_IMODE(st.st_mode), uid=st.st_uid, gid=st.st_gid, owner=owner(st.st_uid),
        nlink=st.st_nlink, mtime_ns=st.st_mtime_ns, fenced=b"# >>> specrun" in data,
    )
    f["release"] = release_of(path)
    if f["release"] is None:
        f["git"] = git_of(path)
    if not FULL:
        return
    f["content"] = pack(data)
    if path in WANT_OUTLINE:
        f["outline"] = outline(data)
    fst = os.stat(folder)
    sticky = bool(fst.st_mode & stat.S_ISVTX) and os.geteuid() not in (0, fst.st_uid, st.st_uid)
    f["folder"] = {
        "writable": can_write(folder), "sticky": sticky, "owner": owner(fst.st_uid),
        "frozen": frozen(folder), "space": space(folder),
    }
    f["frozen"] = frozen(path)
    f["mount"] = mount_of(path)
    f["cache_folders"], f["cache_stuck"] = cached(path)
    f["can_chown"] = os.geteuid() == 0 or (
        st.st_uid == os.geteuid() and st.st_gid in set(os.getgroups()) | {os.getegid()}
    )

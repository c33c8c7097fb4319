# Reads what a plan needs to know and prints it as one JSON line. Writes nothing.
#
# Runs under the target's own interpreter with the server's environment and
# folder, as "python -B -c PROBE MARK REQUEST STATE HOME USER HOSTID", so that
# modules are found where the server would import them. Python 3.8 or newer,
# standard library only.
import sys

if sys.version_info < (3, 8):
    sys.stdout.write("\n%s old %s\n" % (sys.argv[1], sys.version.split()[0]))
    sys.exit(0)

import json
import os
import stat
import time
from hashlib import sha256

MARK, REQUEST, STATE, HOME, USER, HOST_ID = sys.argv[1:7]
ASK = json.loads(REQUEST)
FULL = ASK["full"]


def pack(data):
    import base64
    import zlib

    return base64.b64encode(zlib.compress(data, 6)).decode("ascii")


def read(path):
    with open(path, "rb") as f:
        return f.read()


def text(path):
    try:
        return read(path).decode("utf-8", "surrogateescape").rstrip("\n")
    except OSError:
        return ""


def owner(uid):
    try:
        import pwd

        return pwd.getpwuid(uid).pw_name
    except (ImportError, KeyError):
        return str(uid)


def can_write(folder):
    try:
        return os.access(folder, os.W_OK | os.X_OK, effective_ids=True)
    except NotImplementedError:
        return os.access(folder, os.W_OK | os.X_OK)


# --- modules -----------------------------------------------------------------

TOPS = {}  # top-level name -> (folders to join the rest to, error text)


def top_level(name):
    """Where the top-level package lies, without importing it."""
    if name not in TOPS:
        import importlib.util

        try:
            spec = importlib.util.find_spec(name)
        except Exception as e:  # a broken finder must not hide the reason
            TOPS[name] = ([], None, "%s: %s" % (type(e).__name__, e))
        else:
            if spec is None:
                TOPS[name] = ([], None, "")
            elif spec.submodule_search_locations is None:
                TOPS[name] = ([], spec.origin, "")
            else:
                TOPS[name] = (list(spec.submodule_search_locations), spec.origin, "")
    return TOPS[name]


def find_module(module):
    top, _, rest = module.partition(".")
    folders, origin, error = top_level(top)
    searched = []
    if not rest:
        if origin and os.path.isfile(origin):
            return os.path.abspath(origin), searched, error
    for folder in folders:
        base = os.path.abspath(os.path.join(folder, *rest.split("."))) if rest else folder
        for path in (os.path.join(base, "__init__.py"), base + ".py"):
            if os.path.isfile(path):
                return path, searched, error
            searched.append(path)
    if not folders and not origin:
        searched = [p or os.getcwd() for p in sys.path]
    return "", searched, error


# --- one file ----------------------------------------------------------------

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
    """Classes with bases and methods, and functions, at module level."""
    import ast

    out = {"classes": {}, "functions": [], "syntax_ok": True}
    try:
        tree = ast.parse(data)
    except (SyntaxError, ValueError):
        out["syntax_ok"] = False
        return out

    def definitions(nodes):
        for n in nodes:
            yield n
            if isinstance(n, (ast.If, ast.Try, ast.With)):
                for part in ("body", "orelse", "finalbody", "handlers"):
                    for d in definitions(getattr(n, part, [])):
                        yield d
            elif isinstance(n, ast.ExceptHandler):
                for d in definitions(n.body):
                    yield d

    def dotted(n):
        if isinstance(n, ast.Name):
            return n.id
        if isinstance(n, ast.Attribute):
            return dotted(n.value) + "." + n.attr
        return "?"

    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    for n in definitions(tree.body):
        if isinstance(n, functions):
            out["functions"].append(n.name)
        elif isinstance(n, ast.ClassDef):
            methods = [d.name for d in definitions(n.body) if isinstance(d, functions)]
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
            import base64

            value = row.rsplit(b",", 2)[1][len(b"sha256="):].strip()
            name, version = identity(info)
            try:
                want = base64.urlsafe_b64decode(value + b"=" * (-len(value) % 4)).hex()
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


# --- state folders -----------------------------------------------------------

STATES = {}


def state_facts(path):
    if path in STATES:
        return
    s = {"path": path, "exists": os.path.isdir(path), "ledgers": [], "transactions": [], "blobs": {}}
    STATES[path] = s
    probe = path
    while not os.path.lexists(probe) and os.path.dirname(probe) != probe:
        probe = os.path.dirname(probe)
    s["writable"] = os.path.isdir(probe) and can_write(probe)
    s["space"] = space(path)
    try:
        s["owner"] = owner(os.stat(probe).st_uid)
    except OSError:
        s["owner"] = ""
    if not s["exists"]:
        return
    s["shared"] = bool(os.stat(path).st_mode & stat.S_ISGID)
    try:
        os.listdir(path)
    except OSError as e:
        s["error"] = str(e)
        s["writable"] = False
        return
    for sub in ("files", "blobs", "tx", "locks"):
        d = os.path.join(path, sub)
        if os.path.isdir(d) and not can_write(d):
            s["writable"] = False
    for name in names_in(os.path.join(path, "files")):
        if name.endswith(".json"):
            s["ledgers"].append(document(os.path.join(path, "files", name), name))
    for name in names_in(os.path.join(path, "tx")):
        t_id, _, phase = name.partition(".")
        folder = os.path.join(path, "tx", name)
        doc = document(os.path.join(folder, "plan.json"), name) if phase else {}
        about = [text(os.path.join(folder, f)) for f in names_in(folder) if f.startswith("folder-")]
        about = [d for d in about if d.startswith("/")]
        try:
            age = NOW - os.lstat(folder).st_mtime
        except OSError:
            continue  # just finished by another command
        doc.update(id=t_id, phase=phase or "staged", folders=about, age=age)
        s["transactions"].append(doc)
        for d in about:
            folder_facts(d)


def names_in(folder):
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def document(path, name):
    try:
        data = read(path)
    except OSError as e:
        return {"name": name, "error": str(e)}
    try:
        return {"name": name, "sha256": sha256(data).hexdigest(), "json": json.loads(data.decode("utf-8"))}
    except ValueError as e:
        return {"name": name, "sha256": sha256(data).hexdigest(), "error": str(e)}


def blob(state, sha):
    path = os.path.join(state["path"], "blobs", sha)
    if sha in state["blobs"] or not os.path.isfile(path):
        return
    state["blobs"][sha] = ""
    if FULL:
        data = read(path)
        if sha256(data).hexdigest() == sha:
            state["blobs"][sha] = pack(data)


# --- processes ---------------------------------------------------------------

def processes(names):
    """Processes that may hold an engine: same interpreter, or its name in argv."""
    found = []
    exe = os.path.realpath(sys.executable)
    wanted = [os.fsencode(n) for n in names if n]
    try:
        # Not from btime of /proc/stat, which is in whole seconds.
        boot, tick = time.time() - float(read("/proc/uptime").split()[0]), os.sysconf("SC_CLK_TCK")
        pids = [p for p in os.listdir("/proc") if p.isdigit() and int(p) != os.getpid()]
    except (OSError, ValueError, IndexError):
        return found
    for pid in pids:
        try:
            argv = read("/proc/%s/cmdline" % pid).rstrip(b"\0").split(b"\0")
            if not any(w in a for a in argv for w in wanted):
                continue
            try:
                same = os.path.realpath(os.readlink("/proc/%s/exe" % pid)) == exe
            except OSError:
                same = True  # another user's: its argv has to do
            if not same:
                continue
            st = os.stat("/proc/" + pid)
            fields = read("/proc/%s/stat" % pid).rsplit(b")", 1)[1].split()
        except (OSError, IndexError):
            continue
        if fields[0] in (b"Z", b"X"):
            continue
        found.append({
            "pid": int(pid), "user": owner(st.st_uid), "started": boot + int(fields[19]) / tick,
            "argv": [a.decode("utf-8", "replace") for a in argv],
        })
    return found


# --- all together ------------------------------------------------------------

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
        for doc in s["ledgers"]:
            ledger = doc.get("json") or {}
            if isinstance(ledger.get("path"), str) and ledger["path"].startswith("/"):
                file_facts(os.path.realpath(ledger["path"]))
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
        "user": USER, "uid": os.geteuid(), "home": HOME, "host_id": HOST_ID, "now": NOW, "state_dir": STATE,
        "targets": targets, "files": list(FILES.values()), "folders": FOLDERS, "states": list(STATES.values()),
        "engines": engines, "processes": processes(ASK["engines"]) if patched else [],
    }
    sys.stdout.write("\n%s %s\n" % (MARK, json.dumps(out)))


def digest(path):
    try:
        return sha256(read(path)).hexdigest()
    except OSError:
        return ""


def engine(top, folders):
    import glob

    folders = [os.path.realpath(d) for d in folders]
    for root in sys.path:
        root = os.path.realpath(root or os.getcwd())
        for info in sorted(glob.glob(os.path.join(glob.escape(root), glob.escape(top) + "-*.dist-info"))):
            name, version = identity(info)
            editable = bool(folders) and os.path.dirname(folders[0]) != root
            return {"name": name, "version": version, "dist_info": info, "editable": editable, "folders": folders}
    return {"name": top, "version": "", "dist_info": "", "editable": False, "folders": folders}


main()

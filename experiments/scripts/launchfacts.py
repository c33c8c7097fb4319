# Prints what the server's interpreter would load: packages, the engine's files
# and where they come from, and the models. Imports none of it and writes nothing.
#
# Runs as "python -B -c PROGRAM ASK" with the server's environment and folder.
# Python 3.8 or newer, standard library only. ASK is JSON:
#   engine   top-level package, "" for none
#   patched  {path: [sha256, pristine sha256]}: files counted as before their patch
#   models   [[name, path or hub id, revision]]
#   known    {section: listing}: sections whose facts the asker has for that listing
# Output lines have cells with tabs between; others are noise of the interpreter:
#   fact GROUP KEY VALUE
#   section NAME LISTING       what follows was read of files that look so, or is known
#   diff BASE64                of the engine's working copy, zlib
import sys

if sys.version_info < (3, 8):
    sys.stdout.write("\nfact\tcode\tpython_version\t%s\n" % sys.version.split()[0])
    sys.exit(0)

import json
import os
import stat
from hashlib import sha256

ASK = json.loads(sys.argv[1])
MANY = 40  # files named one by one
FILES = 60000  # looked at in one folder
WHOLE = 32 << 20  # a larger file is known by its size and both ends
ENDS = 64 << 10


def out(*cells):
    text = "\t".join(str(c).translate({9: " ", 10: " ", 13: " "}) for c in cells)
    sys.stdout.buffer.write(text.encode("utf-8", "backslashreplace") + b"\n")


def fact(group, key, value):
    if value not in (None, ""):
        out("fact", group, key, value)


def section(name, listing):
    """Begins a section; false when the asker knows what is in it."""
    out("section", name, listing)
    return ASK["known"].get(name) != listing


def read(path, limit=16 << 20):
    # A pipe in a file's place would be waited for without end.
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as f:
            if stat.S_ISREG(os.fstat(f.fileno()).st_mode):
                return f.read(limit)
    except OSError:
        pass
    return b""


def text(path):
    return read(path).decode("utf-8", "surrogateescape")


def roots():
    return list(dict.fromkeys(os.path.realpath(p or os.getcwd()) for p in sys.path))


def normal(name):
    return name.replace("_", "-").replace(".", "-").lower()


def packages():
    """Names and versions by the folders that installers leave, which is what
    importlib.metadata reads, without its start-up time. The first one on the
    path is the one that is imported."""
    found = {}
    for root in roots():
        try:
            names = sorted(os.listdir(root))
        except OSError:
            continue
        for entry in names:
            stem, ext = os.path.splitext(entry)
            if ext not in (".dist-info", ".egg-info") or stem.count("-") < 1:
                continue
            name, version = stem.split("-")[:2]
            found.setdefault(normal(name), (version, os.path.join(root, entry)))
    return found


def origin(info):
    """What an installer wrote about where a package came from."""
    try:
        doc = json.loads(text(os.path.join(info, "direct_url.json")) or "{}")
        url, vcs, folder = doc.get("url", ""), doc.get("vcs_info") or {}, doc.get("dir_info") or {}
    except (ValueError, AttributeError):
        return "", "", False
    return url, vcs.get("commit_id", ""), bool(folder.get("editable"))


def engine_root(name):
    from importlib.util import find_spec

    try:
        spec = find_spec(name)
    except Exception as e:  # whatever a finder that an installer made may raise
        fact("code", "note", "%s: %s: %s" % (name, type(e).__name__, e))
        return ""
    folders = list((spec and spec.submodule_search_locations) or [])
    return os.path.realpath(folders[0]) if folders else ""


def tree(root, skip=lambda name: False):
    """[(path below root, stat)] of the files, sorted; symlinks to files count
    as the files."""
    found, todo = [], [""]
    while todo and len(found) < FILES:
        here = todo.pop()
        try:
            entries = list(os.scandir(os.path.join(root, here)))
        except OSError:
            continue
        for e in entries:
            path = here + "/" + e.name if here else e.name
            try:
                if e.is_dir(follow_symlinks=False):
                    if e.name not in ("__pycache__", ".git"):
                        todo.append(path)
                elif e.is_file() and not skip(e.name):
                    found.append((path, e.stat()))
            except OSError:
                continue
    return sorted(found, key=lambda f: f[0])


def listing(files, *more):
    h = sha256(json.dumps(more, sort_keys=True).encode())
    for path, s in files:
        h.update(("%s\0%d %d %d %d\n" % (path, s.st_size, s.st_mtime_ns, s.st_ctime_ns, s.st_ino)).encode("utf-8", "surrogateescape"))
    return h.hexdigest()


def digest(path, size):
    if size <= WHOLE:
        return sha256(read(path, WHOLE + 1)).hexdigest()
    h = sha256(b"%d" % size)
    try:
        with open(path, "rb") as f:
            h.update(f.read(ENDS))
            f.seek(-ENDS, 2)
            h.update(f.read(ENDS))
    except OSError:
        pass
    return h.hexdigest()


def of_engine(name):
    """Files that are compiled or written by running are none of its."""
    return name.endswith((".pyc", ".pyo", ".log", ".lock")) or name.startswith(".specrun")


def git_folder(path):
    """The working copy that holds path: its folder and its .git."""
    while True:
        at = os.path.join(path, ".git")
        if os.path.isdir(at):
            return path, at
        link = text(at) if os.path.isfile(at) else ""
        if link.startswith("gitdir: "):
            return path, os.path.join(path, link[len("gitdir: "):].strip())
        if os.path.dirname(path) == path:
            return "", ""
        path = os.path.dirname(path)


def git_commit(folder):
    """The commit that is checked out, and the branch, without git."""
    head = text(os.path.join(folder, "HEAD")).strip()
    if not head.startswith("ref: "):
        return head, ""
    ref = head[len("ref: "):]
    common = os.path.join(folder, text(os.path.join(folder, "commondir")).strip() or ".")
    for base in (folder, common):
        commit = text(os.path.join(base, ref)).strip()
        if commit:
            return commit, ref
    for line in text(os.path.join(common, "packed-refs")).splitlines():
        if line.endswith(" " + ref):
            return line.split(" ")[0], ref
    return "", ref


def git(top, *args, unless=()):
    """Output of git, "" where it ends with a status of unless; None when it
    failed. Only what unfiltered() allows runs beside it: no monitor, no hook, no
    transport, and nothing of a submodule, whose configuration is its own."""
    import subprocess

    env = dict(os.environ, GIT_OPTIONAL_LOCKS="0", LC_ALL="C", GIT_TERMINAL_PROMPT="0", GIT_NO_LAZY_FETCH="1", GIT_ALLOW_PROTOCOL="none")
    for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_EXTERNAL_DIFF"):
        env.pop(name, None)
    command = ["git", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "-c", "safe.directory=" + top, "-C", top]
    try:
        p = subprocess.run(command + list(args), env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return p.stdout if p.returncode == 0 else b"" if p.returncode in unless else None


def unfiltered(top):
    """Options that turn off every filter which the configuration knows, since a
    filter is a program that git runs on the files it compares; None where that
    cannot be had. A file of a filter then counts as it lies."""
    listed = git(top, "config", "-z", "--name-only", "--get-regexp", r"^filter\.", unless=(1,))
    if listed is None:
        return None
    options = []
    for name in sorted({n.rpartition(".")[0] for n in listed.decode("utf-8", "surrogateescape").split("\0") if n}):
        if "=" in name:  # git would take what follows for the value
            return None
        for key, value in (("clean", ""), ("smudge", ""), ("process", ""), ("required", "false")):
            options += ["-c", "%s.%s=%s" % (name, key, value)]
    return options


def git_dirty(top, root, ours):
    """Facts about changes in the working copy, less those that patches of
    specrun made, and the paths that changed; None when git cannot say. No program
    runs that the repository or its owner has configured."""
    keep = [":(top,literal)" + os.path.relpath(root, top)] + [":(top,exclude,literal)" + os.path.relpath(p, top) for p in ours if p.startswith(top + os.sep)]
    plain = unfiltered(top)
    status = None
    if plain is not None:
        status = git(top, *plain, "status", "--porcelain=v1", "-z", "--untracked-files=all", "--no-renames", "--ignore-submodules=dirty", "--", *keep)
    if status is None:
        fact("code", "git_dirty", "not known: no git, or it refused")
        return None
    changed = [e[3:].decode("utf-8", "surrogateescape") for e in status.split(b"\0") if len(e) > 3 and not e.endswith((b".pyc", b".specrun-claim"))]
    if not changed:
        fact("code", "git_dirty", "no")
        return []
    diff = git(top, *plain, "diff", "HEAD", "--no-ext-diff", "--no-textconv", "--submodule=short", "--no-color", "--no-renames", "--ignore-submodules=dirty", "--", *keep) or b""
    lines = diff.splitlines()
    more = sum(1 for l in lines if l.startswith(b"+") and not l.startswith(b"+++"))
    less = sum(1 for l in lines if l.startswith(b"-") and not l.startswith(b"---"))
    fact("code", "git_dirty", "%d files, +%d -%d, diff sha256 %s" % (len(changed), more, less, sha256(diff).hexdigest()[:16]))
    if diff and len(diff) <= 1 << 20:
        from base64 import b64encode
        from zlib import compress

        out("diff", b64encode(compress(diff)).decode())
    return [os.path.join(top, c) for c in changed]


def recorded(info):
    """{path below the root of installation: sha256 as RECORD writes it}."""
    import csv

    try:
        return {row[0]: row[1][len("sha256="):] for row in csv.reader(text(os.path.join(info, "RECORD")).splitlines()) if len(row) > 1 and row[1].startswith("sha256=")}
    except csv.Error:
        return {}


def engine(name, found):
    root = engine_root(name)
    if not root:
        return
    version, info = found.get(normal(name), ("", ""))
    url, commit, editable = origin(info)
    installed = "/site-packages/" in root + "/" or "/dist-packages/" in root + "/"
    top, folder = ("", "") if installed else git_folder(root)
    head, branch = git_commit(folder) if folder else ("", "")
    files = tree(root, of_engine)
    patched = {p: s for p, s in ASK["patched"].items() if p.startswith(root + os.sep)}
    if not section("engine", listing(files, root, patched, head, branch, url, text(os.path.join(info, "RECORD")) if info else "")):
        return
    fact("code", "engine_path", root)
    fact("code", "engine_install", ("editable" if editable else "from " + url) if url else "")
    fact("code", "engine_commit", commit)
    fact("code", "git_commit", head)
    fact("code", "git_branch", branch.replace("refs/heads/", "", 1))
    changed = git_dirty(top, root, list(patched)) if folder else None

    sums = {}
    for path, s in files:
        real = os.path.realpath(os.path.join(root, path))
        sums[path] = digest(real, s.st_size)
        now, before = patched.get(real, (None, None))
        if now == sums[path]:
            sums[path] = before
    groups = {}
    for path, _ in files:
        where = "/".join([name] + path.split("/")[:-1][:2])
        groups.setdefault(where, sha256()).update(("%s\0%s\n" % (path, sums[path])).encode("utf-8", "surrogateescape"))
    whole = sha256("".join(sorted("%s\0%s\n" % p for p in sums.items())).encode("utf-8", "surrogateescape"))
    fact("code", "engine_files", "%d files, sha256 %s" % (len(files), whole.hexdigest()[:16]))
    for where in sorted(groups):
        fact("code", "file %s/*" % where, groups[where].hexdigest()[:16])

    # Which files are not as they came, by what there is to compare with.
    odd = {}
    record = recorded(info) if info and not editable else {}
    if record:
        from base64 import urlsafe_b64encode
        from binascii import a2b_hex

        for path, _ in files:
            was = record.get(name + "/" + path)
            if was is None:
                if path.endswith(".py"):
                    odd[path] = "added"
            elif was != urlsafe_b64encode(a2b_hex(sums[path])).decode().rstrip("="):
                odd[path] = "modified"
        here = {p for p, _ in files}
        for path in record:
            below = path[len(name) + 1:]
            if path.startswith(name + "/") and path.endswith(".py") and below not in here:
                odd[below] = "missing"
    elif changed is not None:
        for path in changed:
            if path.startswith(root + os.sep):
                odd[os.path.relpath(path, root)] = "changed"
    elif files:
        # Copied together; one edited later stands out.
        times = sorted(s.st_mtime for _, s in files)
        late = sorted((s.st_mtime, p) for p, s in files if s.st_mtime > times[len(times) // 2] + 3600)
        odd = {p: "newer" for _, p in late[-MANY // 2:]}
    for path in sorted(odd)[:MANY]:
        if os.path.realpath(os.path.join(root, path)) not in patched:
            fact("code", "file %s/%s" % (name, path), "%s %s" % (sums.get(path, "-"), odd[path]))
    if len(odd) > MANY:
        fact("code", "files_not_as_installed", len(odd))


def hub(name, revision):
    """The snapshot of a model of the hub: its commit and folder."""
    cache = os.environ.get("HF_HUB_CACHE") or os.environ.get("HUGGINGFACE_HUB_CACHE") or ""
    if not cache:
        home = os.environ.get("HF_HOME") or os.path.join(os.environ.get("XDG_CACHE_HOME") or "~/.cache", "huggingface")
        cache = os.path.join(home, "hub")
    folder = os.path.join(os.path.expanduser(cache), "models--" + name.replace("/", "--"))
    commit = text(os.path.join(folder, "refs", revision or "main")).strip() or revision
    at = os.path.join(folder, "snapshots", commit) if commit else ""
    return (commit, at) if at and os.path.isdir(at) else ("", "")


def model(what, path, revision):
    folder = os.path.expanduser(path)
    commit = ""
    if not os.path.isdir(folder) and path.count("/") == 1 and not path.startswith((".", "/", "~")):
        commit, folder = hub(path, revision)
    if not folder or not os.path.isdir(folder):
        return
    files = [f for f in tree(folder) if not f[0].startswith(".")]
    if not section(what, listing(files, path, commit)):
        return
    fact("workload", what + "_snapshot", commit)
    total = sum(s.st_size for _, s in files)
    fact("workload", what + "_files", "%d files, %d bytes" % (len(files), total))
    h = sha256()
    for path, s in files:
        d = digest(os.path.join(folder, path), s.st_size)
        h.update(("%s\0%d %s\n" % (path, s.st_size, d)).encode("utf-8", "surrogateescape"))
        if path in ("config.json", "generation_config.json", "quantize_config.json", "hf_quant_config.json"):
            fact("workload", "%s_%s" % (what, path), d[:16])
    fact("workload", what + "_fingerprint", h.hexdigest()[:16])


def main():
    out("")
    fact("code", "python_version", sys.version.split()[0])
    found = packages()
    for name in sorted(found):
        version, info = found[name]
        _, commit, editable = origin(info)
        fact("packages", name, version + (" (editable)" if editable else " (commit %.12s)" % commit if commit else ""))
    if ASK["engine"]:
        engine(ASK["engine"], found)
    for what, path, revision in ASK["models"]:
        model(what, path, revision)


main()

# State folders: ledgers, transactions, blobs.

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
    doc = {"name": name, "sha256": sha256(data).hexdigest()}
    try:
        doc["json"] = json.loads(data.decode("utf-8"))
        if not isinstance(doc["json"], dict):
            raise ValueError("not an object")
    except ValueError as e:
        doc.pop("json", None)
        doc["error"] = str(e)
    return doc


def blob(state, sha):
    path = os.path.join(state["path"], "blobs", sha)
    if sha in state["blobs"] or not os.path.isfile(path):
        return
    state["blobs"][sha] = ""
    if FULL:
        data = read(path)
        if sha256(data).hexdigest() == sha:
            state["blobs"][sha] = pack(data)

# How the interpreter finds modules, and which engines it sees.

TOPS = {}  # top-level name -> (folders to join the rest to, error text)


def spec_of(name):
    """importlib.util.find_spec for a top-level name, without its imports."""
    if name in sys.modules:
        return sys.modules[name].__spec__
    for finder in sys.meta_path:
        spec = finder.find_spec(name, None, None) if hasattr(finder, "find_spec") else None
        if spec is not None:
            return spec
    return None


def top_level(name):
    """Where the top-level package lies, without importing it."""
    if name not in TOPS:
        try:
            spec = spec_of(name)
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

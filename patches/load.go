package patches

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"specrun/internal/yamlplace"
)

const manifestName = "patch.yaml"

// LoadDir reads the patch in folder dir of fsys strictly. Content files are
// named relative to dir and must lie in fsys. Faults are a *LoadError with
// file, line and column.
func LoadDir(fsys fs.FS, dir string) (*Patch, error) {
	file := path.Join(dir, manifestName)
	manifest, err := fs.ReadFile(fsys, file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &LoadError{File: file, Msg: "there is no patch.yaml: not a patch folder"}
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", file, err)
	}
	return load(file, manifest, func(name string) ([]byte, error) {
		full := path.Join(dir, name)
		if !fs.ValidPath(full) {
			return nil, fmt.Errorf("it leaves the folder")
		}
		return fs.ReadFile(fsys, full)
	})
}

// load makes a patch of its manifest and of the content files it names.
func load(file string, manifest []byte, read func(name string) ([]byte, error)) (*Patch, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal(manifest, &doc); err != nil {
		return nil, yamlError(file, err)
	}
	if len(doc.Content) == 0 {
		return nil, &LoadError{File: file, Line: 1, Column: 1, Msg: "the file is empty"}
	}
	l := &loader{decoder: decoder{file: file}, read: read, files: map[string][]byte{}}
	p := l.patch(doc.Content[0])
	if l.err != nil {
		return nil, l.err
	}
	p.manifest, p.files = bytes.Clone(manifest), l.files
	p.sha = blobSHA(p)
	return p, nil
}

type loader struct {
	decoder
	read  func(name string) ([]byte, error)
	files map[string][]byte
}

var (
	patchName    = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]*$`)
	patchVersion = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._+-]*$`)
	moduleName   = regexp.MustCompile(`^[A-Za-z_]\w*(\.[A-Za-z_]\w*)+$`)
	names        = regexp.MustCompile(`^[A-Za-z_]\w*(\|[A-Za-z_]\w*)*$`)
)

func (l *loader) patch(n *yaml.Node) *Patch {
	f := l.fields(n, "a patch", "name!", "version!", "summary!", "probe", "engine", "lab_only", "env", "emits", "targets!")
	if f == nil {
		return nil
	}
	p := &Patch{
		Name:    l.matching(f["name"], "name", patchName, "lower-case letters, digits, '.', '_', '-'"),
		Version: l.matching(f["version"], "version", patchVersion, "letters, digits, '.', '_', '+', '-'"),
		Summary: strings.TrimSpace(l.text(f["summary"], "summary")),
		Probe:   Probe(l.oneOf(f["probe"], "probe", string(ProbeNone), string(ProbeLight), string(ProbeEvents), string(ProbeSync))),
		Engine:  l.oneOf(f["engine"], "engine", "sglang", "vllm"),
		LabOnly: l.flag(f["lab_only"], "lab_only"),
		Env:     l.textMap(f["env"], "env"),
	}
	if p.Probe == "" {
		p.Probe = ProbeNone
	}
	if f["emits"] != nil {
		p.Emits = l.emits(f["emits"])
	}
	for _, t := range l.list(f["targets"], "targets") {
		p.Targets = append(p.Targets, l.target(t))
	}
	if len(p.Targets) == 0 {
		l.fail(f["targets"], "", "a patch needs at least one target")
	}
	for i, t := range p.Targets {
		if slices.ContainsFunc(p.Targets[:i], func(o Target) bool { return o.Name() == t.Name() }) {
			l.fail(f["targets"], "", "target %s stands twice", t.Name())
		}
	}
	return p
}

func (l *loader) emits(n *yaml.Node) Emits {
	f := l.fields(n, "emits", "rows", "acceptance", "phases")
	return Emits{
		Rows:       l.texts(f["rows"], "emits.rows"),
		Acceptance: Acceptance(l.oneOf(f["acceptance"], "emits.acceptance", string(AcceptanceWithBonus), string(AcceptanceWithoutBonus))),
		Phases:     l.text(f["phases"], "emits.phases"),
	}
}

func (l *loader) target(n *yaml.Node) Target {
	f := l.fields(n, "a target", "module", "path", "requires", "kind!", "content", "edits")
	if f == nil {
		return Target{}
	}
	t := Target{Path: l.text(f["path"], "path"), Kind: l.kind(f["kind"])}
	if f["module"] != nil {
		t.Module = l.matching(f["module"], "module", moduleName, "a dotted module below its top-level package")
	}
	if (t.Module == "") == (t.Path == "") {
		l.fail(n, "", "a target needs either module or path")
	}
	if t.Path != "" && !strings.HasPrefix(t.Path, "/") && !strings.HasPrefix(t.Path, "~/") {
		l.fail(f["path"], "", "path must begin with / or ~/")
	}
	for _, r := range l.list(f["requires"], "requires") {
		t.Requires = append(t.Requires, l.requirement(r))
	}
	for _, part := range []struct {
		key  string
		kind Kind
	}{{"content", KindAppend}, {"edits", KindEdits}} {
		switch {
		case t.Kind == part.kind && f[part.key] == nil:
			l.fail(n, "", "kind %s needs %q", t.Kind, part.key)
		case t.Kind != part.kind && t.Kind != "" && f[part.key] != nil:
			l.fail(f[part.key], "", "%q does not belong to kind %s", part.key, t.Kind)
		}
	}
	switch t.Kind {
	case KindAppend:
		t.Content = l.content(f["content"])
	case KindEdits:
		t.Edits = l.edits(f["edits"])
	}
	return t
}

func (l *loader) kind(n *yaml.Node) Kind {
	switch s := l.text(n, "kind"); s {
	case "diff", "replace", "script":
		l.fail(n, "", "kind %q is not supported by this version; it applies append and edits", s)
		return ""
	}
	return Kind(l.oneOf(n, "kind", string(KindAppend), string(KindEdits)))
}

func (l *loader) requirement(n *yaml.Node) Requirement {
	f := l.fields(n, "a requirement", "class", "methods", "function", "optional")
	r := Requirement{Optional: l.flag(f["optional"], "optional")}
	const what = "a name, or names with '|' between"
	if f["class"] != nil {
		r.Class = l.matching(f["class"], "class", names, what)
	}
	if f["function"] != nil {
		r.Function = l.matching(f["function"], "function", names, what)
	}
	for _, m := range l.list(f["methods"], "methods") {
		r.Methods = append(r.Methods, l.matching(m, "methods", names, what))
	}
	if (r.Class == "") == (r.Function == "") {
		l.fail(n, "", "a requirement needs either class or function")
	}
	if r.Class == "" && (len(r.Methods) > 0 || r.Optional) {
		l.fail(n, "", "methods and optional belong to a class")
	}
	return r
}

// content joins the named files. They must be ASCII with LF line ends, so that
// they are right in a file of any encoding and can be given its line ends.
func (l *loader) content(n *yaml.Node) []byte {
	items := []*yaml.Node{n}
	if resolve(n).Kind == yaml.SequenceNode {
		items = l.list(n, "content")
	}
	var all []byte
	for _, item := range items {
		name := l.text(item, "content")
		if l.err != nil {
			return nil
		}
		b, err := l.file(name)
		if err != nil {
			l.fail(item, "", "content file %s: %v", name, err)
			return nil
		}
		if i := bytes.IndexFunc(b, func(r rune) bool { return r == '\r' || r == 0 || r > 126 }); i >= 0 {
			l.fail(item, "", "content file %s: line %d holds a byte that is not plain ASCII with LF line ends", name, 1+bytes.Count(b[:i], []byte("\n")))
		}
		if !bytes.HasSuffix(b, []byte("\n")) {
			l.fail(item, "", "content file %s must end with a newline", name)
		}
		if fences, err := FindFence(b); err != nil || len(fences) > 0 {
			l.fail(item, "", "content file %s holds the marks of an appended block", name)
		}
		all = append(all, b...)
	}
	return all
}

func (l *loader) file(name string) ([]byte, error) {
	if b, ok := l.files[name]; ok {
		return b, nil
	}
	b, err := l.read(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errors.New("there is no such file in the patch")
	}
	if err != nil {
		return nil, err
	}
	l.files[name] = b
	return b, nil
}

func (l *loader) edits(n *yaml.Node) []Edit {
	var edits []Edit
	for _, item := range l.list(n, "edits") {
		f := l.fields(item, "an edit", "find!", string(Replace), string(Before), string(After))
		if f == nil {
			return nil
		}
		e := Edit{Find: l.text(f["find"], "find"), Line: item.Line}
		for _, action := range []EditAction{Replace, Before, After} {
			if v := f[string(action)]; v != nil {
				if e.Action != "" {
					l.fail(v, "", "an edit has one of replace, before, after")
				}
				e.Action, e.Text = action, l.text(v, string(action))
			}
		}
		switch {
		case e.Action == "":
			l.fail(item, "", "an edit needs one of replace, before, after")
		case strings.Trim(e.Find, "\n") == "":
			l.fail(f["find"], "", "find must hold at least one line")
		case strings.Trim(e.Text, "\n") == "":
			l.fail(f[string(e.Action)], "", "%s must hold at least one line: without one, a file that is edited already could not be told from one that does not fit", e.Action)
		case strings.ContainsAny(e.Find+e.Text, "\r"):
			l.fail(item, "", "an edit is written with LF line ends")
		case e.Action == Replace && slices.Equal(textLines(e.Find), textLines(e.Text)):
			l.fail(item, "", "the edit changes nothing")
		}
		for _, o := range edits {
			if o.Action == e.Action && slices.Equal(textLines(o.Find), textLines(e.Find)) {
				l.fail(item, "", "the edit in line %d has the same anchor and action: join them", o.Line)
			}
		}
		edits = append(edits, e)
	}
	if len(edits) == 0 {
		l.fail(n, "", "kind edits needs at least one edit")
	}
	return edits
}

func (l *loader) matching(n *yaml.Node, what string, re *regexp.Regexp, meaning string) string {
	s := l.text(n, what)
	if l.err == nil && !re.MatchString(s) {
		l.fail(resolve(n), "", "%s is %q; it must be %s", what, s, meaning)
	}
	return s
}

// yamlError gives a syntax error of the YAML library its place.
func yamlError(file string, err error) error {
	line, msg := yamlplace.Of(err)
	return &LoadError{File: file, Line: max(line, 1), Column: 1, Msg: msg}
}

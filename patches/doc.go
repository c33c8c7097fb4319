// Package patches turns the bytes of a file into patched bytes, and says
// conflict, already applied, or done. It knows nothing of hosts: it reads and
// writes no file of an engine and opens no connection.
//
// A patch is a folder: patch.yaml and the content files that it names. It has
// one or more targets, each a Python module (found by the interpreter of the
// host) or a path, with what the file must contain (requires, checked on an
// outline of its syntax tree) and one kind of change:
//
//   - append: a fenced block of Python at the end of the file. The file's own
//     bytes stay as they are, whatever their line ends and encoding.
//   - edits: whole lines inserted or replaced at anchors, each of which must
//     match exactly once. There is no fuzz and no ignoring of white space.
//
// Patches stack: the content of a file is its pristine bytes and an ordered
// list of layers, so taking one away is deriving the file anew from the rest.
//
// A patch travels and is kept as one canonical blob (Marshal, Unmarshal); its
// content hash is the SHA-256 of that blob. The blob holds patch.yaml and every
// content file as written, so that another build of specrun can undo a patch
// that it does not carry itself.
//
//	p, err := patches.Lookup("profiling-v4")
//	out, err := patches.Apply(p, p.Targets[0], src)
//	if errors.Is(err, patches.ErrAlreadyApplied) { ... }
//
// The built-in patches are in library/; library/README.md describes what the
// profilers print.
package patches

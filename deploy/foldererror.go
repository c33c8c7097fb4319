package deploy

import "fmt"

// FolderError says that the server's working directory cannot be entered:
// nothing was read yet, and nothing changed.
type FolderError struct{ Host, Path string }

func (e *FolderError) Error() string {
	return fmt.Sprintf("%s: the server's working directory %s cannot be entered", e.Host, e.Path)
}

// Hint says what to do next.
func (e *FolderError) Hint() string { return "see cwd: in the spec and in hosts.yaml" }

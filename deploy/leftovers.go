package deploy

import (
	"path"
	"slices"
	"strings"
)

// namelessAge is when a transaction goes that was cut off before it could say
// which folders it is about, in seconds of the host's clock.
const namelessAge = 10

// leftoverAge is the same for staged content of which this state folder knows
// nothing and that another user made.
const leftoverAge = 3600

// leftovers is what earlier commands left and no transaction names.
type leftovers struct {
	ids     []string
	folders []string
}

func (l leftovers) empty() bool { return len(l.ids) == 0 && len(l.folders) == 0 }

// leftovers finds what scripts that were cut off have left: transactions not
// past their commit point, or done and not cleared away, staged content of
// neither, and claims of folders without patches. A script that is still at
// work holds the folder's lock, and clearing away takes it, too.
func (f *Facts) leftovers(stateDir string) leftovers {
	var l leftovers
	state := f.state(stateDir)
	if state == nil || !state.Exists || !state.Writable {
		return l
	}
	phase := map[string]string{}
	for _, t := range state.Transactions {
		if !validID(t.ID) {
			continue
		}
		phase[t.ID] = t.Phase
		if t.Phase == "done" || t.Phase == "staged" && (len(t.Folders) > 0 || t.Age > namelessAge) {
			l.ids = append(l.ids, t.ID)
			l.folders = append(l.folders, slices.DeleteFunc(slices.Clone(t.Folders), func(d string) bool { return !validFolder(d) })...)
		}
	}
	for folder, here := range f.Folders {
		for _, s := range here.Stages {
			if validID(s.ID) && phase[s.ID] == "" && (s.Mine || s.Age > leftoverAge) {
				l.ids = append(l.ids, s.ID)
				l.folders = append(l.folders, folder)
			}
		}
		if here.Claim != nil && here.Claim.StateDir == stateDir && !f.patchedIn(folder) && len(f.open(state)) == 0 {
			l.folders = append(l.folders, folder)
		}
	}
	slices.Sort(l.folders)
	l.folders = slices.Compact(l.folders)
	return l
}

// validID keeps names that someone else chose out of the scripts.
func validID(id string) bool {
	for _, c := range id {
		if c != '-' && c != '_' && (c < '0' || '9' < c) && (c < 'A' || 'Z' < c) && (c < 'a' || 'z' < c) {
			return false
		}
	}
	return id != ""
}

// validFolder is the same for folders: only a path that means what it says.
func validFolder(folder string) bool {
	return cleanPath(folder) == nil && path.Clean(folder) == folder
}

func (f *Facts) patchedIn(folder string) bool {
	for _, file := range f.Files {
		if !strings.HasPrefix(file.Path, folder+"/") {
			continue
		}
		if k, err := f.know(file.Path); err != nil || k.ledger != nil && len(k.ledger.Stack) > 0 {
			return true
		}
	}
	return false
}

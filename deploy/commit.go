package deploy

import (
	"context"
	"fmt"
	"path"
	"strconv"
	"strings"

	"specrun/remote"
)

var commitScripts = []string{"common.sh", "lock.sh", "commit.sh"}

// commit is one call of commit.sh.
type commit struct {
	mode        string // new, forward, back, tidy
	stateDir    string
	tx          transaction
	take, force bool
	python      string
	user        string
	hostID      string
	cachePrefix string
	ledgers     []string // id, hash of the ledger that was read, ...
	blobs       []string // of patches that were sent
	leftovers   []string // mode tidy: ids
	content     string   // everything new, packed
}

func (c commit) run(ctx context.Context, t Target) (remote.Result, error) {
	vars, err := c.vars()
	if err != nil {
		return remote.Result{}, err
	}
	return t.Run(ctx, remote.Script{Name: c.mode + " commit", Text: shell(commitScripts...), Vars: vars})
}

func (c commit) vars() ([]remote.Var, error) {
	var files, seals, saved, pre, post []string
	txdir := c.stateDir + "/tx/" + c.tx.ID
	for _, f := range c.tx.Files {
		mtime, check, want := f.Mtime, yesNo(f.Check), f.Post
		if c.mode == "back" {
			mtime, check, want = f.UndoMtime, "absent", f.Pre
		}
		files = append(files, f.Path, f.Stage, f.Pre, f.Post, strconv.FormatInt(mtime, 10), check, f.ID, yesNo(f.Patched), folderKey(path.Dir(f.Path)))
		if f.Stage != "-" {
			seals = append(seals, f.Path, f.Stage, want, strconv.FormatInt(mtime, 10), check)
		}
		if f.Pre != "none" {
			saved = append(saved, f.Pre+"  "+txdir+"/blobs/"+f.Pre)
			pre = append(pre, f.Pre+"  "+f.Path)
		}
		if f.Post != "none" {
			post = append(post, f.Post+"  "+f.Path)
		}
	}
	for _, sum := range c.blobs {
		saved = append(saved, sum+"  "+txdir+"/blobs/"+sum)
	}
	folders, err := folderWords(c.tx)
	if err != nil {
		return nil, err
	}
	vars := []remote.Var{
		{Name: "mode", Value: c.mode}, {Name: "state", Value: c.stateDir}, {Name: "tx", Value: c.tx.ID},
		{Name: "take", Value: yesNo(c.take)}, {Name: "force", Value: yesNo(c.force)},
		{Name: "user", Value: c.user}, {Name: "host_id", Value: c.hostID},
		{Name: "cache_prefix", Value: c.cachePrefix}, {Name: "python", Value: c.python},
		{Name: "seal", Value: text("seal.py")}, {Name: "content", Value: c.content}, {Name: "journal", Value: c.tx.Journal},
		{Name: "folders", Value: folders}, {Name: "leftovers", Value: strings.Join(c.leftovers, " ")},
		{Name: "saved_sums", Value: strings.Join(saved, "\n")}, {Name: "pre_sums", Value: strings.Join(pre, "\n")},
		{Name: "post_sums", Value: strings.Join(post, "\n")},
	}
	for name, values := range map[string][]string{"files": files, "seal_files": seals, "ledgers": c.ledgers} {
		w, err := words(values...)
		if err != nil {
			return nil, err
		}
		vars = append(vars, remote.Var{Name: name, Value: w})
	}
	return vars, nil
}

func folderWords(tx transaction) (string, error) {
	var out []string
	for _, f := range tx.Folders {
		claim := "none"
		if f.Stage {
			claim = "make"
		}
		out = append(out, folderKey(f.Path), f.Path, claim)
	}
	return words(out...)
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// dropStage takes our own staged content away after a failure, also when ctx
// has ended.
func dropStage(ctx context.Context, t Target, p *Plan, tx transaction) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), tidyLimit)
	defer cancel()
	l := leftovers{ids: []string{p.ID}}
	for _, f := range tx.Folders {
		l.folders = append(l.folders, f.Path)
	}
	if err := tidy(ctx, t, p.as("tidy"), l); err != nil {
		return fmt.Errorf("clear the staged content away: %w", err)
	}
	return nil
}

// tidy removes what no transaction needs.
func tidy(ctx context.Context, t Target, c commit, l leftovers) error {
	for _, f := range l.folders {
		c.tx.Folders = append(c.tx.Folders, txFolder{Path: f})
	}
	c.tx.sortFolders()
	c.leftovers = l.ids
	res, err := c.run(ctx, t)
	if err != nil {
		return scriptError(t.Name(), res, err)
	}
	return nil
}

// as prepares a call of commit.sh for a plan.
func (p *Plan) as(mode string) commit {
	return commit{mode: mode, stateDir: p.StateDir, python: p.Python, user: p.user, hostID: p.hostID, cachePrefix: p.cachePrefix}
}

package experiments

import (
	"bufio"
	"cmp"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"slices"
)

// packed are the first bytes of files that have to be unpacked by hand.
var packed = map[string]string{"\x28\xb5\x2f\xfd": "zstd", "\xfd7zX": "xz", "BZh9": "bzip2"}

// ImportLocal reads a log of this machine. A gzip file counts as its content.
func ImportLocal(path string, known []Content) ImportFile {
	f := ImportFile{Pattern: path, Path: path}
	if err := f.readLocal(known); err != nil {
		f.Err, f.Runs = err, nil
	}
	return f
}

func (f *ImportFile) readLocal(known []Content) error {
	info, err := os.Stat(f.Path)
	if err != nil {
		return err
	}
	if info.IsDir() {
		return fmt.Errorf("read %s: is a folder: name its files", f.Path)
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("read %s: is no regular file", f.Path)
	}
	path, size := f.Path, info.Size()
	f.Bytes = size
	f.Open = func() (io.ReadCloser, error) { return openLog(path, size) }
	in, err := f.Open()
	if err != nil {
		return err
	}
	defer in.Close()
	sum := newPrefixSum(known)
	if f.Runs, err = ReadLogRuns(io.TeeReader(in, sum), f.Path); err != nil {
		return err
	}
	if _, err := io.Copy(sum, in); err != nil {
		return fmt.Errorf("read %s: %w", f.Path, err)
	}
	f.Content = Content{sum.n, hex.EncodeToString(sum.hash.Sum(nil))}
	f.Known = slices.Contains(known, f.Content)
	f.Extends = sum.extends()
	return nil
}

// openLog opens the first size bytes of a log: what is appended meanwhile is
// another content.
func openLog(path string, size int64) (io.ReadCloser, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	br := bufio.NewReaderSize(io.LimitReader(file, size), 64<<10)
	head, err := br.Peek(4)
	if err != nil && err != io.EOF {
		return nil, errors.Join(fmt.Errorf("read %s: %w", path, err), file.Close())
	}
	if by := packed[string(head)]; by != "" {
		return nil, errors.Join(fmt.Errorf("read %s: is packed by %s: unpack it first", path, by), file.Close())
	}
	if len(head) < 2 || head[0] != 0x1f || head[1] != 0x8b {
		return logFile{br, file}, nil
	}
	z, err := gzip.NewReader(br)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("read %s: %w", path, err), file.Close())
	}
	return logFile{z, file}, nil
}

// logFile reads what a file holds and closes the file.
type logFile struct {
	io.Reader
	io.Closer
}

// prefixSum hashes a content and notes which known ones it begins with.
type prefixSum struct {
	hash   hash.Hash
	n      int64
	known  []Content // by size, those still to come
	begins []Content
}

func newPrefixSum(known []Content) *prefixSum {
	p := &prefixSum{hash: sha256.New(), known: slices.Clone(known)}
	slices.SortFunc(p.known, func(a, b Content) int { return cmp.Compare(a.Bytes, b.Bytes) })
	return p
}

// extends are the known contents that are a beginning of this one, not all of it.
func (p *prefixSum) extends() []string {
	var out []string
	for _, c := range p.begins {
		if c.Bytes < p.n {
			out = append(out, c.SHA256)
		}
	}
	return out
}

func (p *prefixSum) Write(b []byte) (int, error) {
	all := len(b)
	for len(p.known) > 0 && p.known[0].Bytes <= p.n+int64(len(b)) {
		c := p.known[0]
		p.known = p.known[1:]
		if c.Bytes < p.n {
			continue
		}
		part := b[:c.Bytes-p.n]
		p.add(part)
		b = b[len(part):]
		if c.Bytes > 0 && hex.EncodeToString(p.hash.Sum(nil)) == c.SHA256 {
			p.begins = append(p.begins, c)
		}
	}
	p.add(b)
	return all, nil
}

func (p *prefixSum) add(b []byte) {
	p.hash.Write(b) // never fails
	p.n += int64(len(b))
}

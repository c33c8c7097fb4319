package loopback

import (
	"bytes"
	"encoding/binary"
	"io"
	"os"
	"path/filepath"
	"sync"

	"github.com/pkg/sftp"
)

// Packet types and codes of SFTP version 3.
const (
	packetVersion  = 2
	packetOpen     = 3
	packetRead     = 5
	packetRename   = 18
	packetStatus   = 101
	packetHandle   = 102
	packetExtended = 200

	statusOK      = 0
	statusFailure = 4

	fsyncName = "fsync@openssh.com"
	maxPacket = 1 << 20
)

// serveSFTP serves SFTP from the library's server, made as strict and as able
// as OpenSSH's: rename onto an existing file fails, fsync is there.
func serveSFTP(ch io.ReadWriteCloser, cwd string, maxRead int) {
	toServer, in := io.Pipe()
	out, fromServer := io.Pipe()
	f := &filter{ch: ch, cwd: cwd, maxRead: maxRead, opening: map[uint32]string{}, paths: map[string]string{}}
	server, err := sftp.NewServer(struct {
		io.Reader
		io.WriteCloser
	}{toServer, fromServer}, sftp.WithServerWorkingDirectory(cwd))
	if err != nil {
		return // only its options fail, and this one does not
	}
	var work sync.WaitGroup
	work.Go(func() { f.requests(in); in.Close() })
	work.Go(func() { f.answers(out) })
	server.Serve() // ends with the client
	server.Close()
	toServer.Close()
	fromServer.Close()
	ch.Close()
	work.Wait()
}

// filter stands between client and server and answers some requests itself.
type filter struct {
	ch      io.ReadWriter
	cwd     string
	maxRead int

	mu      sync.Mutex        // of the maps and of writes to ch
	opening map[uint32]string // request id of an open -> path
	paths   map[string]string // handle -> path
}

// requests passes the client's packets on, but for those answered here.
func (f *filter) requests(to io.Writer) {
	for {
		p, err := readPacket(f.ch)
		if err != nil {
			return
		}
		if answer, ok := f.handle(p); ok {
			if f.send(answer) != nil {
				return
			}
			continue
		}
		if err := writePacket(to, p); err != nil {
			return
		}
	}
}

func (f *filter) handle(p []byte) (answer []byte, ours bool) {
	if len(p) < 5 {
		return nil, false
	}
	id, body := binary.BigEndian.Uint32(p[1:]), p[5:]
	switch p[0] {
	case packetOpen:
		if path, _, ok := cutString(body); ok {
			f.mu.Lock()
			f.opening[id] = f.at(path)
			f.mu.Unlock()
		}
	case packetRead:
		// handle, offset (8 bytes), length (4 bytes)
		if _, rest, ok := cutString(body); ok && f.maxRead > 0 && len(rest) == 12 {
			length := min(binary.BigEndian.Uint32(rest[8:]), uint32(f.maxRead))
			binary.BigEndian.PutUint32(rest[8:], length)
		}
	case packetRename:
		_, rest, _ := cutString(body)
		if to, _, ok := cutString(rest); ok {
			if _, err := os.Lstat(f.at(to)); err == nil {
				return status(id, statusFailure, "Failure"), true
			}
		}
	case packetExtended:
		name, rest, _ := cutString(body)
		if name == fsyncName {
			handle, _, _ := cutString(rest)
			return f.fsync(id, handle), true
		}
	}
	return nil, false
}

// fsync opens the file again: all descriptors of a file share its pages.
func (f *filter) fsync(id uint32, handle string) []byte {
	f.mu.Lock()
	path := f.paths[handle]
	f.mu.Unlock()
	file, err := os.Open(path)
	if err != nil {
		return status(id, statusFailure, err.Error())
	}
	defer file.Close()
	if err := file.Sync(); err != nil {
		return status(id, statusFailure, err.Error())
	}
	return status(id, statusOK, "")
}

// answers passes the server's packets on, and learns which handle is which file.
func (f *filter) answers(from io.Reader) {
	for {
		p, err := readPacket(from)
		if err != nil {
			return
		}
		switch {
		case p[0] == packetVersion:
			p = appendString(appendString(p, fsyncName), "1")
		case len(p) >= 5 && (p[0] == packetHandle || p[0] == packetStatus):
			id := binary.BigEndian.Uint32(p[1:])
			f.mu.Lock()
			if path, ok := f.opening[id]; ok {
				delete(f.opening, id)
				if handle, _, ok := cutString(p[5:]); ok && p[0] == packetHandle {
					f.paths[handle] = path
				}
			}
			f.mu.Unlock()
		}
		if f.send(p) != nil {
			io.Copy(io.Discard, from) // the server must not hang on us
			return
		}
	}
}

func (f *filter) at(path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(f.cwd, path)
}

func (f *filter) send(p []byte) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return writePacket(f.ch, p)
}

func readPacket(r io.Reader) ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(head[:])
	if n == 0 || n > maxPacket {
		return nil, io.ErrUnexpectedEOF
	}
	p := make([]byte, n)
	_, err := io.ReadFull(r, p)
	return p, err
}

func writePacket(w io.Writer, p []byte) error {
	_, err := w.Write(append(binary.BigEndian.AppendUint32(make([]byte, 0, 4+len(p)), uint32(len(p))), p...))
	return err
}

func status(id uint32, code uint32, text string) []byte {
	p := binary.BigEndian.AppendUint32([]byte{packetStatus}, id)
	p = binary.BigEndian.AppendUint32(p, code)
	return appendString(appendString(p, text), "")
}

func appendString(p []byte, s string) []byte {
	return append(binary.BigEndian.AppendUint32(p, uint32(len(s))), s...)
}

func cutString(p []byte) (s string, rest []byte, ok bool) {
	if len(p) < 4 {
		return "", nil, false
	}
	n := binary.BigEndian.Uint32(p)
	if uint64(n) > uint64(len(p)-4) {
		return "", nil, false
	}
	return string(bytes.Clone(p[4 : 4+n])), p[4+n:], true
}

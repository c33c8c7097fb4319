package remote

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/skeema/knownhosts"
	"golang.org/x/crypto/ssh"
	xknownhosts "golang.org/x/crypto/ssh/knownhosts"
)

// HostKeyError says that a host's key could not be verified. Kind is
// ErrHostKeyUnknown (nothing is recorded), ErrHostKeyChanged (the same type is
// recorded with another key, or the key is revoked), or ErrHostKeyType (only
// other types are recorded, and the server did not prove one of those).
type HostKeyError struct {
	Host     string
	Address  string // as in known_hosts
	Kind     error
	Offered  string // type and SHA-256 fingerprint; the types alone when no key was seen
	Recorded []string
	File     string // where a new key would be recorded, may be empty
	Unread   []string
}

func (e *HostKeyError) Error() string {
	msg := fmt.Sprintf("%s: %v: %s offers %s", e.Host, e.Kind, e.Address, e.Offered)
	if len(e.Recorded) > 0 {
		msg += "; recorded: " + strings.Join(e.Recorded, ", ")
	}
	for _, u := range e.Unread {
		msg += "; not read: " + u
	}
	return msg
}

// Hint says what the user can do about it.
func (e *HostKeyError) Hint() string {
	switch e.Kind {
	case ErrHostKeyUnknown:
		return "compare the fingerprint with the host's own (ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub there), then run again with --accept-new"
	case ErrHostKeyChanged:
		return "someone may be in between, or the host was reinstalled: ask its owner, and only then remove the recorded line"
	}
	return "compare the offered key with the host's own, and record it: ssh-keyscan prints its lines"
}

func (e *HostKeyError) Unwrap() error { return e.Kind }

// hostKeys verifies the key of one host in one handshake.
type hostKeys struct {
	c      Config
	db     *knownhosts.HostKeyDB
	unread []string
	// refused is the reason for which the callback ended the handshake.
	refused error
}

func newHostKeys(c Config) (*hostKeys, error) {
	k := &hostKeys{c: c}
	return k, k.load()
}

// load reads the known-hosts files. One that is not there is empty; one that
// holds nothing readable is named in the error that may follow from it.
func (k *hostKeys) load() error {
	var files []string
	k.unread = nil
	for _, f := range k.c.KnownHosts {
		_, err := xknownhosts.New(f)
		switch {
		case err == nil:
			files = append(files, f)
		case !errors.Is(err, os.ErrNotExist):
			k.unread = append(k.unread, err.Error())
		}
	}
	db, err := knownhosts.NewDB(files...)
	if err != nil {
		return fmt.Errorf("%s: read known hosts: %w", k.c.Name, err)
	}
	k.db = db
	return nil
}

// algorithms are the host key algorithms to offer: of a known host only those
// of which a key is recorded, since no other can be verified. Left to its own
// order, the library may negotiate another type than the recorded one and call
// that a mismatch.
func (k *hostKeys) algorithms() []string {
	if known := k.db.HostKeyAlgorithms(k.c.keyName()); len(known) > 0 {
		return known
	}
	return []string{ssh.KeyAlgoED25519, ssh.KeyAlgoECDSA256, ssh.KeyAlgoECDSA384, ssh.KeyAlgoECDSA521,
		ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256}
}

// verify is the ssh.HostKeyCallback.
func (k *hostKeys) verify(_ string, remote net.Addr, key ssh.PublicKey) error {
	k.refused = k.check(remote, key)
	return k.refused
}

func (k *hostKeys) check(remote net.Addr, key ssh.PublicKey) error {
	err := k.db.HostKeyCallback()(k.c.keyName(), anyAddr(remote), key)
	if err == nil {
		return nil
	}
	e := k.newError(ErrHostKeyChanged, key.Type()+" "+ssh.FingerprintSHA256(key))
	var mismatch *xknownhosts.KeyError
	var revoked *xknownhosts.RevokedError
	switch {
	case errors.As(err, &revoked):
		e.Recorded = []string{describe(revoked.Revoked) + ", revoked"}
		return e
	case !errors.As(err, &mismatch):
		return fmt.Errorf("%s: verify the host key: %w", k.c.Name, err)
	}
	for _, known := range mismatch.Want {
		e.Recorded = append(e.Recorded, describe(known))
	}
	sameType := slices.ContainsFunc(mismatch.Want, func(w xknownhosts.KnownKey) bool { return w.Key.Type() == key.Type() })
	switch {
	case len(mismatch.Want) == 0 && k.c.AcceptNew:
		return k.record(remote, key)
	case len(mismatch.Want) == 0:
		e.Kind = ErrHostKeyUnknown
	case !sameType:
		e.Kind = ErrHostKeyType
	}
	return e
}

func (k *hostKeys) newError(kind error, offered string) *HostKeyError {
	e := &HostKeyError{Host: k.c.Name, Address: knownhosts.Normalize(k.c.keyName()), Kind: kind, Offered: offered, Unread: k.unread}
	if len(k.c.KnownHosts) > 0 {
		e.File = k.c.KnownHosts[0]
	}
	return e
}

// noCommonType is the error for a server that has none of the recorded types.
func (k *hostKeys) noCommonType(n *ssh.AlgorithmNegotiationError) error {
	e := k.newError(ErrHostKeyType, strings.Join(n.RequestedAlgorithms, ", "))
	for _, known := range k.db.HostKeys(k.c.keyName()) {
		e.Recorded = append(e.Recorded, known.Type()+" "+ssh.FingerprintSHA256(known.PublicKey))
	}
	return e
}

func describe(k xknownhosts.KnownKey) string {
	return fmt.Sprintf("%s %s (%s:%d)", k.Key.Type(), ssh.FingerprintSHA256(k.Key), k.Filename, k.Line)
}

// anyAddr stands in for the address of a connection that has none; the lookup
// goes by name and only parses it.
func anyAddr(a net.Addr) net.Addr {
	if a == nil {
		return &net.TCPAddr{IP: net.IPv4zero}
	}
	if _, _, err := net.SplitHostPort(a.String()); err != nil {
		return &net.TCPAddr{IP: net.IPv4zero}
	}
	return a
}

// record adds a key to the first known-hosts file, as one write at its end, so
// that several at once do not mix. Read again first: another may have recorded
// a key meanwhile, and then that one counts.
func (k *hostKeys) record(remote net.Addr, key ssh.PublicKey) error {
	if len(k.c.KnownHosts) == 0 {
		return k.newError(ErrHostKeyUnknown, key.Type()+" "+ssh.FingerprintSHA256(key))
	}
	if err := k.load(); err != nil {
		return err
	}
	if len(k.db.HostKeys(k.c.keyName())) > 0 {
		again := *k
		again.c.AcceptNew = false
		return again.check(remote, key)
	}
	name := k.c.KnownHosts[0]
	fail := func(err error) error {
		return fmt.Errorf("%s: record the host key in %s: %w", k.c.Name, name, err)
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return fail(err)
	}
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return fail(err)
	}
	line := knownhosts.Line([]string{k.c.keyName()}, key) + "\n"
	if unfinished(f) {
		line = "\n" + line
	}
	_, err = f.WriteString(line)
	if err := errors.Join(err, f.Close()); err != nil {
		return fail(err)
	}
	return nil
}

// unfinished says whether a file's last line lacks its newline.
func unfinished(f *os.File) bool {
	end, err := f.Seek(0, io.SeekEnd)
	if err != nil || end == 0 {
		return false
	}
	last := make([]byte, 1)
	_, err = f.ReadAt(last, end-1)
	return err == nil && !bytes.Equal(last, []byte("\n"))
}

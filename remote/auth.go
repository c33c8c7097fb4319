package remote

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
)

// maxKeys is how many keys are offered: sshd hangs up after MaxAuthTries (6),
// of which the question for methods is one, and each refused key costs a round
// trip.
const maxKeys = 5

// keyring collects the keys for one handshake and remembers what stood in the
// way of others, for the error message.
type keyring struct {
	c        Config
	agent    net.Conn
	offered  []string
	problems []string
	missing  []string
	locked   string // an identity file whose passphrase nobody could give
}

func (k *keyring) close() {
	if k.agent != nil {
		k.agent.Close()
	}
}

func (k *keyring) problem(format string, args ...any) {
	k.problems = append(k.problems, fmt.Sprintf(format, args...))
}

// signers returns the keys in the order of offering: identity files (through
// the agent where it holds the same key), then the agent's others.
func (k *keyring) signers(ctx context.Context) []ssh.Signer {
	held := k.fromAgent(ctx)
	var all []ssh.Signer
	add := func(s ssh.Signer, from string) {
		for _, have := range all {
			if bytes.Equal(have.PublicKey().Marshal(), s.PublicKey().Marshal()) {
				return
			}
		}
		if len(all) == maxKeys {
			k.problem("%s not offered: %d keys are the most a server takes", from, maxKeys)
			return
		}
		all = append(all, s)
		k.offered = append(k.offered, from+" ("+s.PublicKey().Type()+")")
	}
	for _, file := range k.c.IdentityFiles {
		if s := k.fromFile(ctx, file, held); s != nil {
			if cert := k.withCertificate(file, s); cert != nil {
				add(cert, file+"-cert.pub")
			}
			add(s, file)
		}
	}
	if !k.c.IdentitiesOnly {
		for _, s := range held {
			add(s, "agent key "+ssh.FingerprintSHA256(s.PublicKey()))
		}
	}
	return all
}

func (k *keyring) fromAgent(ctx context.Context) []ssh.Signer {
	if k.c.AgentSocket == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "unix", k.c.AgentSocket)
	if err != nil {
		k.problem("agent: %v", err)
		return nil
	}
	k.agent = conn
	// Bounds the list and each signature: an agent may ask its user.
	conn.SetDeadline(time.Now().Add(k.c.HandshakeTimeout))
	signers, err := agent.NewClient(conn).Signers()
	if err != nil {
		k.problem("agent: %v", err)
	}
	return signers
}

// fromFile returns the signer of an identity file, or nil with a problem noted.
func (k *keyring) fromFile(ctx context.Context, file string, held []ssh.Signer) ssh.Signer {
	if pub, err := os.ReadFile(file + ".pub"); err == nil {
		if key, _, _, _, err := ssh.ParseAuthorizedKey(pub); err == nil {
			if s := find(held, key); s != nil {
				return s
			}
		}
	}
	text, err := os.ReadFile(file)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			k.missing = append(k.missing, file) // ssh names defaults that few have
		} else {
			k.problem("%v", err)
		}
		return nil
	}
	s, err := ssh.ParsePrivateKey(text)
	if err == nil {
		return s
	}
	var locked *ssh.PassphraseMissingError
	if !errors.As(err, &locked) {
		k.problem("%s: %v", file, err)
		return nil
	}
	if locked.PublicKey != nil {
		if s := find(held, locked.PublicKey); s != nil {
			return s
		}
	}
	return k.unlock(ctx, file, text)
}

func (k *keyring) unlock(ctx context.Context, file string, text []byte) ssh.Signer {
	if k.c.Prompt == nil {
		k.locked = file
		k.problem("%s needs a passphrase", file)
		return nil
	}
	answer, err := k.c.Prompt(ctx, "Passphrase for "+file+": ")
	if err != nil {
		k.locked = file
		k.problem("%s needs a passphrase: %v", file, err)
		return nil
	}
	s, err := ssh.ParsePrivateKeyWithPassphrase(text, []byte(answer))
	if err != nil {
		k.problem("%s: %v", file, err)
		return nil
	}
	return s
}

func (k *keyring) withCertificate(file string, s ssh.Signer) ssh.Signer {
	text, err := os.ReadFile(file + "-cert.pub")
	if err != nil {
		return nil
	}
	key, _, _, _, err := ssh.ParseAuthorizedKey(text)
	if err != nil {
		k.problem("%s-cert.pub: %v", file, err)
		return nil
	}
	cert, ok := key.(*ssh.Certificate)
	if !ok {
		return nil
	}
	signer, err := ssh.NewCertSigner(cert, s)
	if err != nil {
		k.problem("%s-cert.pub: %v", file, err)
		return nil
	}
	return signer
}

func find(held []ssh.Signer, key ssh.PublicKey) ssh.Signer {
	for _, s := range held {
		if bytes.Equal(s.PublicKey().Marshal(), key.Marshal()) {
			return s
		}
	}
	return nil
}

// refused is the error for a host that took none of the keys.
func (k *keyring) refused(err error) error {
	e := &Error{Host: k.c.Name, Op: "log in as " + k.c.User, Kind: ErrAuth}
	switch {
	case len(k.offered) == 0:
		e.Err = errors.New("no key to offer")
		if len(k.missing) > 0 {
			e.Err = fmt.Errorf("no key to offer: not there: %s", strings.Join(k.missing, ", "))
		}
	default:
		e.Err = fmt.Errorf("none was accepted of: %s", strings.Join(k.offered, ", "))
	}
	if len(k.problems) > 0 {
		e.Err = fmt.Errorf("%w; %s", e.Err, strings.Join(k.problems, "; "))
	}
	e.Err = fmt.Errorf("%w (%w)", e.Err, err)
	switch {
	case k.locked != "":
		e.Next = "run: ssh-add " + k.locked
	case len(k.offered) == 0:
		e.Next = "give a private key: identity_file in hosts.yaml, IdentityFile in ssh_config, or ssh-add"
	default:
		e.Next = "add one of the keys to ~/.ssh/authorized_keys of " + k.c.User + " there; check the user name"
	}
	return e
}

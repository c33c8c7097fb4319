package loopback

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/crypto/ssh"
)

// loadKey reads a private key, and makes it first where there is none, so that
// a server started again in the same folder is the same one to its clients.
func loadKey(path string) (ssh.Signer, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		text, err = makeKey(path)
	}
	if err != nil {
		return nil, fmt.Errorf("loopback server: %w", err)
	}
	signer, err := ssh.ParsePrivateKey(text)
	if err != nil {
		return nil, fmt.Errorf("loopback server: key %s: %w", path, err)
	}
	return signer, nil
}

func makeKey(path string) ([]byte, error) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	block, err := ssh.MarshalPrivateKey(key, "specrun loopback")
	if err != nil {
		return nil, err
	}
	text := pem.EncodeToMemory(block)
	return text, os.WriteFile(path, text, 0o600)
}

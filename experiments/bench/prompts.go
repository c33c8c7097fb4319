package bench

import (
	"crypto/sha256"
	_ "embed"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

//go:embed builtin_chat.txt
var builtinChat string

// BuiltinChat names the prompts that come with specrun.
const BuiltinChat = "builtin:chat"

// promptSet holds the prompts of a job: those measured and those that warm up.
type promptSet struct {
	measured, warm []string
}

// prompts gives the job's texts, each list in the order of the seed.
func (j Job) prompts() (promptSet, error) {
	var s promptSet
	switch {
	case len(j.Texts) > 0:
		// Without a list of their own the warm-up prompts are the measured ones
		// with another beginning, so that no cached prefix is measured.
		s.measured = slices.Clone(j.Texts)
		for _, t := range j.Texts {
			s.warm = append(s.warm, "As a warm-up: "+t)
		}
	case j.Prompts == BuiltinChat:
		s = parsePrompts(builtinChat)
	default:
		return s, fmt.Errorf("benchmark: prompts %q: want %s", j.Prompts, BuiltinChat)
	}
	shuffle(s.measured, j.Seed, 1)
	shuffle(s.warm, j.Seed, 2)
	return s, nil
}

// parsePrompts reads one prompt a line; "#" begins a comment, the line
// "# warm-up" the second list.
func parsePrompts(text string) promptSet {
	var s promptSet
	warm := false
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "# warm-up"):
			warm = true
		case line == "" || strings.HasPrefix(line, "#"):
		case warm:
			s.warm = append(s.warm, line)
		default:
			s.measured = append(s.measured, line)
		}
	}
	return s
}

func shuffle(list []string, seed int64, stream uint64) {
	r := rand.New(rand.NewPCG(uint64(seed), stream))
	r.Shuffle(len(list), func(a, b int) { list[a], list[b] = list[b], list[a] })
}

// take gives n prompts. When the list is used up it begins again with a number
// in front: two requests with the same beginning would share a cached prefix.
func take(list []string, n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = list[i%len(list)]
		if round := i / len(list); round > 0 {
			out[i] = fmt.Sprintf("(%d) %s", round+1, out[i])
		}
	}
	return out
}

// hashTexts is the SHA-256 of texts in order, in hex. Lengths go in too, so that
// moving a boundary changes it.
func hashTexts(texts []string) string {
	h := sha256.New()
	var n [8]byte
	for _, t := range texts {
		binary.BigEndian.PutUint64(n[:], uint64(len(t)))
		h.Write(n[:])
		h.Write([]byte(t))
	}
	return hex.EncodeToString(h.Sum(nil))
}

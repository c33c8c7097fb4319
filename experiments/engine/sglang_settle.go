package engine

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// sglangRenames are the flags that changed their names, by the releases'
// own argument parsers.
var sglangRenames = []rename{
	{old: "speculative-draft", now: "speculative-draft-model-path", why: " (an abbreviation that is ambiguous in newer releases)"},
	{old: "speculative-draft-model", now: "speculative-draft-model-path", until: "0.5.2"},
	{old: "speculative-ngram-branch-length", now: "speculative-ngram-max-trie-depth", from: "0.5.10", before: "0.5.7"},
	{old: "speculative-ngram-min-match-window-size", from: "0.5.10", why: ": the trie's depth is all that there is to set"},
	{old: "speculative-ngram-max-match-window-size", from: "0.5.10", why: ": the trie's depth is all that there is to set"},
	{old: "speculative-dflash-draft-window-size", now: "speculative-draft-window-size", from: "0.5.12"},
	{old: "cuda-graph-max-bs", now: "cuda-graph-max-bs-decode", from: "0.5.14", before: "0.5.13"},
	{old: "cuda-graph-bs", now: "cuda-graph-bs-decode", from: "0.5.14", before: "0.5.13"},
	{old: "piecewise-cuda-graph-max-tokens", now: "cuda-graph-max-bs-prefill", from: "0.5.14", before: "0.5.13"},
	{old: "piecewise-cuda-graph-tokens", now: "cuda-graph-bs-prefill", from: "0.5.14", before: "0.5.13"},
	{old: "nsa-prefill-backend", now: "dsa-prefill-backend", from: "0.5.14", before: "0.5.13"},
	{old: "nsa-decode-backend", now: "dsa-decode-backend", from: "0.5.14", before: "0.5.13"},
	{old: "mamba-scheduler-strategy", now: "mamba-radix-cache-strategy", from: "0.5.14", before: "0.5.13"},
	{old: "stream-output", now: "incremental-streaming-output", from: "0.5.14", before: "0.5.13"},
}

// Names of flags and variables with rules of their own.
const (
	sglangBetaSpec   = "enable-beta-spec"
	sglangSpecV2     = "SGLANG_ENABLE_SPEC_V2"
	sglangMixedChunk = "enable_mixed_chunk"
	sglangNoOverlap  = "disable_overlap_schedule"
	sglangRunning    = "max_running_requests"
)

// sglangSpecRunning is how many requests a speculative server runs at once when
// nothing is asked for.
const sglangSpecRunning = 48

// Settle implements Settler with what the releases' argument handling does.
func (e sglang) Settle(flags []Flag, env map[string]string, version string) (Settled, error) {
	s := &sglangSettling{release: readRelease(version), version: version, env: env}
	s.out.Flags, s.out.Notes = translate("sglang", flags, version, sglangRenames)
	s.betaSpec()
	s.out.Canonical = e.Canonical(s.out.Flags)
	s.useless()
	if s.algorithm() == "" {
		return s.out, nil
	}
	if err := s.possible(); err != nil {
		return Settled{}, err
	}
	s.shape()
	s.overlap()
	s.rest()
	return s.out, nil
}

// sglangSettling is one server being settled.
type sglangSettling struct {
	release release
	version string
	env     map[string]string
	out     Settled
}

func (s *sglangSettling) flag(key string) (string, bool) { return find(s.out.Flags, key) }

func (s *sglangSettling) has(key string) bool {
	return slices.ContainsFunc(s.out.Flags, func(f Flag) bool { return sglangKey(f.Name) == key && f.Kind != Omitted })
}

func (s *sglangSettling) number(key string) (n int, ok bool) {
	text, ok := s.flag(key)
	if !ok {
		return 0, false
	}
	n, err := strconv.Atoi(strings.TrimSpace(text))
	return n, err == nil
}

func (s *sglangSettling) algorithm() string { return sglangAlgorithm(s.out.Flags) }

func (s *sglangSettling) drafts() bool { return draftsInSteps(s.algorithm()) }

func (s *sglangSettling) note(format string, args ...any) {
	s.out.Notes = append(s.out.Notes, fmt.Sprintf(format, args...))
}

// change says what the server does otherwise, and leaves the flag out of what
// tells servers apart.
func (s *sglangSettling) change(key, text string) {
	n := len(s.out.Canonical)
	s.out.Canonical = slices.DeleteFunc(s.out.Canonical, func(f Flag) bool { return sglangKey(f.Name) == key })
	if len(s.out.Canonical) < n {
		s.out.Changes = append(s.out.Changes, text)
	}
}

func (s *sglangSettling) impossible(why string, args ...any) error {
	return &ImpossibleError{Engine: "sglang", Version: s.version, Why: fmt.Sprintf(why, args...)}
}

// betaSpec translates the flag that two releases had for what others do by an
// environment variable, or by default.
func (s *sglangSettling) betaSpec() {
	at := slices.IndexFunc(s.out.Flags, func(f Flag) bool { return f.Name == sglangBetaSpec })
	if at < 0 || !s.release.from("0.5.5") {
		return
	}
	on := s.out.Flags[at].Kind != Omitted
	s.out.Flags = slices.Delete(s.out.Flags, at, at+1)
	switch {
	case !on:
	case s.release.from("0.5.12"):
		s.note("%s is left out: sglang %s uses spec v2 by default", sglangBetaSpec, s.version)
	default:
		if _, set := s.env[sglangSpecV2]; !set {
			s.out.Env = map[string]string{sglangSpecV2: "true"}
		}
		s.note("%s is written %s=true, as sglang %s has it", sglangBetaSpec, sglangSpecV2, s.version)
	}
}

// useless names variables that a release does not read.
func (s *sglangSettling) useless() {
	v, set := s.env[sglangSpecV2]
	if !set {
		return
	}
	switch {
	case s.release.from("0.5.14"):
		s.out.Unused = append(s.out.Unused, sglangSpecV2)
		s.note("%s=%s has no effect: sglang %s does not read it (since 0.5.14); disable-overlap-schedule is what is left of it", sglangSpecV2, v, s.version)
	case s.release.before("0.5.5"):
		s.out.Unused = append(s.out.Unused, sglangSpecV2)
		s.note("%s=%s has no effect: sglang %s does not read it (before 0.5.5)", sglangSpecV2, v, s.version)
	}
}

// specV2 is whether the environment asks for it; what it says when it is not set
// depends on the release.
func (s *sglangSettling) specV2() bool {
	v, set := s.env[sglangSpecV2]
	if added, ok := s.out.Env[sglangSpecV2]; ok {
		v, set = added, true
	}
	if !set {
		return s.release.from("0.5.12")
	}
	return slices.Contains([]string{"1", "true", "yes", "y", "t", "on"}, strings.ToLower(strings.TrimSpace(v)))
}

// possible refuses what the release refuses.
func (s *sglangSettling) possible() error {
	if !s.drafts() {
		if s.algorithm() == "NGRAM" && s.has("enable_dp_attention") && s.release.within("0.5.3", "0.5.13") {
			return s.impossible("NGRAM does not work with enable-dp-attention")
		}
		return nil
	}
	steps, topk, draft := s.has("speculative_num_steps"), s.has("speculative_eagle_topk"), s.has("speculative_num_draft_tokens")
	k, topkKnown := s.number("speculative_eagle_topk")
	tree := topkKnown && k > 1
	backend := ""
	for _, key := range []string{"attention_backend", "decode_attention_backend", "prefill_attention_backend"} {
		if v, ok := s.flag(key); ok && (v == "trtllm_mha" || backend == "") {
			backend = v
		}
	}
	page, _ := s.number("page_size")
	paged := []string{"flashinfer", "fa3"}
	if !s.release.before("0.5.13") {
		paged = append(paged, "triton")
	}
	switch {
	case !steps && (topk || draft):
		return s.impossible("speculative-eagle-topk and speculative-num-draft-tokens need speculative-num-steps")
	case s.algorithm() == "STANDALONE" && s.has("enable_dp_attention") && s.release.within("0.5.2", "0.5.13"):
		return s.impossible("STANDALONE does not work with enable-dp-attention")
	case tree && backend == "trtllm_mha":
		return s.impossible("attention backend trtllm_mha needs speculative-eagle-topk 1")
	case tree && page > 1 && s.has("attention_backend") && !slices.Contains(paged, backend):
		return s.impossible("speculative-eagle-topk > 1 with page-size > 1 needs attention backend %s", strings.Join(paged, " or "))
	case tree && s.specV2() && s.release.within("0.5.10", "0.5.11"):
		return s.impossible("spec v2 (%s) needs speculative-eagle-topk 1", sglangSpecV2)
	}
	return nil
}

// shape is how long and how wide a draft is.
func (s *sglangSettling) shape() {
	if !s.drafts() {
		return
	}
	switch steps, topk := s.has("speculative_num_steps"), s.has("speculative_eagle_topk"); {
	case !steps:
		s.note("speculative-num-steps is not set: the server chooses steps, topk and draft tokens by model and release " +
			"(3,1,4 or 5,4,8; the same model had both), so that the result holds for this release alone; set it")
	case !topk:
		s.note("speculative-eagle-topk is not set beside speculative-num-steps, which some releases end with an error on; set it to 1")
	}
	asked, given := s.flag("speculative_num_draft_tokens")
	if runs, fixed := draftTokens(s.out.Flags); fixed && given && strings.TrimSpace(asked) != runs {
		s.out.Changes = append(s.out.Changes, fmt.Sprintf("speculative-num-draft-tokens %s runs as %s: with speculative-eagle-topk 1 the server drafts num-steps + 1 tokens", asked, runs))
	}
}

// overlap is which worker runs, and whether the overlap scheduler can be turned
// off.
func (s *sglangSettling) overlap() {
	k, _ := s.number("speculative_eagle_topk")
	off := s.has(sglangNoOverlap)
	never := "speculation always runs without the overlap scheduler, so that disable-overlap-schedule changes nothing"
	switch {
	case s.release == nil || s.release.from("0.5.13"):
	case !s.drafts():
		s.change(sglangNoOverlap, never)
		s.unread()
	case s.release.before("0.5.5"):
		if !s.has(underscores(sglangBetaSpec)) || s.release.before("0.5.3.post2") {
			s.change(sglangNoOverlap, never)
		}
	case s.release.before("0.5.12"):
		switch {
		case !s.specV2():
			s.change(sglangNoOverlap, never+fmt.Sprintf(" unless %s is set", sglangSpecV2))
		case s.algorithm() == "EAGLE" || s.release.from("0.5.10"):
			s.change(sglangNoOverlap, sglangSpecV2+" turns the overlap scheduler on, disable-overlap-schedule or not")
		}
	case k > 1: // 0.5.12: falls back to the old worker
		s.change(sglangNoOverlap, "with speculative-eagle-topk > 1 the server uses spec v1, without the overlap scheduler")
		s.unread()
		if !off {
			s.out.Changes = append(s.out.Changes, "speculative-eagle-topk > 1 runs on spec v1, topk 1 on spec v2: they differ in more than topk")
		}
	case !s.specV2():
		s.change(sglangNoOverlap, sglangSpecV2+" turns the overlap scheduler off already")
	case off:
		s.unread()
	}
}

// unread says that SGLANG_ENABLE_SPEC_V2 does not matter for this server.
func (s *sglangSettling) unread() {
	if _, set := s.env[sglangSpecV2]; set && !slices.Contains(s.out.Unused, sglangSpecV2) {
		s.out.Unused = append(s.out.Unused, sglangSpecV2)
	}
}

// rest is what speculation changes of other flags.
func (s *sglangSettling) rest() {
	s.change(sglangMixedChunk, "speculation turns enable-mixed-chunk off")
	n, set := s.number(sglangRunning)
	if !set && !s.has(sglangRunning) {
		s.out.MaxRunning = sglangSpecRunning
	}
	if set && n == sglangSpecRunning {
		s.change(sglangRunning, fmt.Sprintf("max-running-requests is %d for a speculative server anyway", sglangSpecRunning))
	}
}

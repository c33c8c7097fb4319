package origin

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Flags of SGLang's speculation that become params.
const (
	sglangSteps = "speculative-num-steps"
	sglangTopK  = "speculative-eagle-topk"
	sglangDraft = "speculative-num-draft-tokens"
	sglangMode  = "speculative-attention-mode"
)

// lift makes a param of a flag's value.
func (d *Draft) lift(flag, value string, p param) {
	d.params = append(d.params, p)
	d.lifted[flag] = "${" + p.name + "}"
	d.Lifted = append(d.Lifted, fmt.Sprintf("%s: --%s %s", p.name, flag, value))
}

// number reads a flag's value when it is a plain whole number.
func (d *Draft) number(flag string) (int, bool) {
	text, ok := d.args.find(flag)
	if !ok {
		return 0, false
	}
	n, err := strconv.Atoi(text)
	return n, err == nil && strconv.Itoa(n) == text && n >= 0
}

// liftSGLang makes params of what a sweep over speculation varies. A default
// that is computed from another param is written only when it gives the value
// that stood there.
func (d *Draft) liftSGLang() {
	steps, hasSteps := d.number(sglangSteps)
	topk, hasTopK := d.number(sglangTopK)
	draft, hasDraft := d.number(sglangDraft)
	if hasSteps {
		d.lift(sglangSteps, strconv.Itoa(steps), param{name: "steps", values: fmt.Sprintf("1..%d", max(4, steps)), fallback: strconv.Itoa(steps), help: "draft steps in a cycle"})
	}
	if hasTopK {
		d.lift(sglangTopK, strconv.Itoa(topk), param{name: "topk", fallback: strconv.Itoa(topk), help: "branches of the draft tree at each step"})
	}
	if hasDraft {
		p := param{name: "draft", fallback: strconv.Itoa(draft), help: "draft tokens that are verified in a cycle"}
		if hasSteps && hasTopK {
			d.derive(&p, steps, topk, draft)
		}
		d.lift(sglangDraft, strconv.Itoa(draft), p)
	}
	if mode, ok := d.args.find(sglangMode); ok && (mode == "prefill" || mode == "decode") {
		d.lift(sglangMode, mode, param{name: "mode", values: "[prefill, decode]", fallback: mode, help: "attention backend of verify and draft-extend"})
	}
	for _, f := range d.args.flags {
		if strings.HasPrefix(f.name, "speculative-") {
			d.baseline = []string{"speculative-*"}
			break
		}
	}
	if d.baseline != nil && !hasSteps {
		d.note("--%s is not given, so the engine chooses by model and version: set it before comparing", sglangSteps)
	}
}

// derive computes the default of the draft tokens from steps and topk.
func (d *Draft) derive(p *param, steps, topk, draft int) {
	switch {
	case topk == 1 && draft == steps+1:
		p.fallback = "${topk == 1 ? steps + 1 : 8}"
	case topk > 1:
		p.fallback = fmt.Sprintf("${topk == 1 ? steps + 1 : %d}", draft)
	default:
		d.note("--%s %d: with topk 1 the engine makes it steps + 1, which is %d", sglangDraft, draft, steps+1)
	}
	if draft <= steps*topk+1 {
		d.rules = append(d.rules, "draft <= steps * topk + 1")
	}
	if topk > 1 || draft == steps+1 {
		d.rules = append(d.rules, "topk > 1 || draft == steps + 1")
	}
}

// vllmSpeculation is the flag of vLLM's speculation, as a whole or with a dot and
// a key behind it.
const (
	vllmSpeculation = "speculative-config"
	vllmTokens      = "num_speculative_tokens"
)

// isSpeculation tells whether a flag is vLLM's speculation, and with which key.
func isSpeculation(name string) (key string, ok bool) {
	whole, key, _ := strings.Cut(name, ".")
	return strings.ReplaceAll(key, "-", "_"), strings.ReplaceAll(whole, "_", "-") == vllmSpeculation
}

// liftVLLM makes a param of the number of speculative tokens.
func (d *Draft) liftVLLM() {
	for _, f := range d.args.flags {
		key, ok := isSpeculation(f.name)
		if !ok {
			continue
		}
		if whole, _, dotted := strings.Cut(f.name, "."); dotted {
			d.removeInBaseline(whole + ".*")
		} else {
			d.removeInBaseline(f.name)
		}
		if len(f.values) != 1 || f.repeat {
			continue
		}
		tokens := f.values[0]
		if key == "" {
			tokens = ""
			if v, ok := parseJSON(f.values[0]); ok {
				tokens = v.member(vllmTokens)
			}
		}
		if n, err := strconv.Atoi(tokens); err != nil || n < 1 || strconv.Itoa(n) != tokens || key != "" && key != vllmTokens {
			continue
		}
		n, _ := strconv.Atoi(tokens) // it was read just now
		template := "${" + vllmTokens + "}"
		d.params = append(d.params, param{name: vllmTokens, values: fmt.Sprintf("1..%d", max(3, n)), fallback: tokens, help: "tokens that are drafted in a step"})
		d.lifted[f.name] = template
		d.Lifted = append(d.Lifted, fmt.Sprintf("%s: %s in --%s", vllmTokens, tokens, f.name))
	}
}

func (d *Draft) removeInBaseline(name string) {
	if !slices.Contains(d.baseline, name) {
		d.baseline = append(d.baseline, name)
	}
}

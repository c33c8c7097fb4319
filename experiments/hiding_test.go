package experiments

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"specrun/internal/tier"
)

func TestHiding_FindsASecretOnEveryBorder(t *testing.T) {
	t.Parallel()
	const secret, named = "opensesame-0123456789", "sk-named-only"
	texts := map[string]string{
		"in a line":                  "a\nb " + secret + " c\napi_key='" + named + "'\n",
		"without a last line's end":  "a\nx " + secret,
		"across a window":            strings.Repeat("line\n", hidingWindow/5-2) + secret + "\n",
		"in a long line":             strings.Repeat("x", hidingWindow/2-10) + secret + strings.Repeat("y", hidingWindow),
		"named across where it cuts": strings.Repeat("x", hidingWindow/2-12) + ", api_key='" + named + "', " + strings.Repeat("y", hidingWindow),
		"at the end of a long line":  strings.Repeat("x", hidingWindow-5) + secret + strings.Repeat("y", 3*hidingWindow) + secret,
	}
	for i, name := range slices.Sorted(maps.Keys(texts)) {
		text := texts[name]
		readers := map[string]io.Reader{"whole": strings.NewReader(text), "by bytes": bySteps{strings.NewReader(text), tier.Size(61, 1)},
			"with its end": iotest.DataErrReader(strings.NewReader(text))}
		for k, kind := range slices.Sorted(maps.Keys(readers)) {
			if (i+k)%tier.Every(11) != 0 {
				continue // each text and each kind, not every pair of them
			}
			from := readers[kind]
			r := newRedactor("h", nil)
			stand := r.hide(secret)
			got, err := io.ReadAll(newHiding(from, r))
			if err != nil {
				t.Fatal(err)
			}
			want := strings.ReplaceAll(strings.ReplaceAll(text, secret, stand), named, r.hide(named))
			if string(got) != want {
				t.Errorf("%s, %s: %d bytes, want %d; has the secret: %v %v", name, kind, len(got), len(want), strings.Contains(string(got), secret), strings.Contains(string(got), named))
			}
		}
	}
}

// bySteps reads a few bytes at a time, a number that no border is a multiple of.
type bySteps struct {
	r    io.Reader
	most int
}

func (b bySteps) Read(p []byte) (int, error) { return b.r.Read(p[:min(len(p), b.most)]) }

func TestHiding_IsOfBoundedMemory(t *testing.T) {
	t.Parallel()
	for name, line := range map[string]string{"lines": strings.Repeat("Decode batch. #token: 12, gen throughput (token/s): 23.1\n", 1000), "one line": strings.Repeat("z", 60_000)} {
		times := tier.Size(40, 300)
		var parts []io.Reader
		for range times {
			parts = append(parts, strings.NewReader(line))
		}
		h := newHiding(io.MultiReader(parts...), newRedactor("h", nil))
		n, most := 0, 0
		for p := make([]byte, 1000); ; {
			got, err := h.Read(p)
			n += got
			most = max(most, cap(h.in)+cap(h.out))
			if err == io.EOF {
				break
			}
		}
		if n != times*len(line) || most > 4*hidingWindow || h.lines != 0 {
			t.Errorf("%s: %d of %d bytes, %d held at once, %d lines changed", name, n, times*len(line), most, h.lines)
		}
	}
}

func TestHiding_PassesErrorsOn(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	got, err := io.ReadAll(newHiding(io.MultiReader(strings.NewReader("a\nb"), iotest.ErrReader(broken)), newRedactor("h", nil)))
	if string(got) != "a\nb" || !errors.Is(err, broken) {
		t.Errorf("%q, %v", got, err)
	}
}

func TestHideSecrets_ComparesTheOriginal(t *testing.T) {
	t.Parallel()
	const text = "a\nserver_args=ServerArgs(model_path='/m', api_key='sk-abcdefgh', tp_size=8)\nb\n"
	h := HideSecrets(strings.NewReader(text), "", digest([]byte(text)))
	got, err := io.ReadAll(h)
	if err != nil || strings.Contains(string(got), "sk-abc") || !strings.Contains(string(got), "model_path='/m', api_key='(secret, sha ") || h.Lines() != 1 {
		t.Errorf("%q %v, %d lines", got, err, h.Lines())
	}
	if _, err := io.ReadAll(HideSecrets(strings.NewReader(text+"more"), "", digest([]byte(text)))); err == nil {
		t.Error("another content was taken for it")
	}
}

// In every way in which a program may print one.
func TestRedactor_FormsOfASecret(t *testing.T) {
	t.Parallel()
	r := newRedactor("h", nil)
	secret := "it's \"a\\b\" & c/d"
	key := "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0\nshort\n"
	r.hide(secret)
	r.hide(key)
	inJSON, err := json.Marshal(map[string]string{"x": secret})
	if err != nil {
		t.Fatal(err)
	}
	plain, err := plainJSON(secret)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"x " + secret, string(plain), `x='it\'s "a\\b" & c/d'`, "?k=it%27s+%22a%5Cb%22+%26+c%2Fd", "'it'\\''s \"a\\b\" & c/d'", "MIIEvQIBADANBgkqhkiG9w0", key} {
		if got := r.text(text); !strings.Contains(got, "(secret") || strings.Contains(got, "s \"a") || strings.Contains(got, "MIIE") {
			t.Errorf("%q became %q", text, got)
		}
	}
	if got := string(r.json(inJSON)); !json.Valid([]byte(got)) || strings.Contains(got, "it's") {
		t.Errorf("%s became %s", inJSON, got)
	}
}

func TestRedactor_NamedValues(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"ServerArgs(api_key='sk-hidden-1', x=1)", `{'admin_api_key': "sk-hidden-1"}`, `{"hf_token":"sk-hidden-1"}`, "export HF_TOKEN=sk-hidden-1; x",
		"non-default args: {'api_key': ['sk-hidden-1', 'sk-hidden-1']}", "GET /?api_key=sk-hidden-1&x=1", "--ssl-keyfile-password sk-hidden-1", "password='sk-hidden-1'", "Authorization: Bearer sk-hidden-1"} {
		if got := newRedactor("h", nil).text(text); strings.Contains(got, "hidden") {
			t.Errorf("%q became %q", text, got)
		}
	}
	for _, text := range []string{"eos_token='</s>', api_key=None", "max_total_num_tokens=412000, token/s: 5", "log_level='info', tokenizer_path='/m'", `{"prompt_tokens": "12"}`, "HF_TOKEN=$HF_TOKEN", "sort(key=f)", "api_key=''"} {
		if got := newRedactor("h", nil).text(text); got != text {
			t.Errorf("%q became %q", text, got)
		}
	}
	raw := `{"a":"api_key='sk-hidden-1","b":"it's","n":1.50,"api_key":"x\"y"}`
	if got := string(newRedactor("h", nil).json([]byte(raw))); !json.Valid([]byte(got)) || !strings.HasPrefix(got, `{"a":"api_key='sk-hidden-1","b":"it's","n":1.50,"api_key":"(secret`) {
		t.Errorf("%s became %s", raw, got)
	}
}

// A log may have something like a secret in each line.
func TestRedactor_RemembersABoundedNumber(t *testing.T) {
	t.Parallel()
	r := newRedactor("h", nil)
	for i := range 3 * mostSecrets {
		if got := r.text(fmt.Sprintf("api_key='sk-number-%d'", i)); strings.Contains(got, "sk-") {
			t.Fatal(got)
		}
	}
	if len(r.known) > 2*mostSecrets {
		t.Errorf("%d remembered", len(r.known))
	}
}

func BenchmarkHiding_DecodeLines(b *testing.B) {
	line := "[2025-10-02 12:00:00 TP0] Decode batch. #running-req: 1, #token: 512, token usage: 0.00, accept len: 2.10, cuda graph: True, gen throughput (token/s): 83.12, #queue-req: 0, \n"
	text := strings.Repeat(line, 10_000)
	b.SetBytes(int64(len(text)))
	for range b.N {
		r := newRedactor("h", nil)
		for i := range 20 {
			r.hide(fmt.Sprintf("some secret %d", i))
		}
		if _, err := io.Copy(io.Discard, newHiding(strings.NewReader(text), r)); err != nil {
			b.Fatal(err)
		}
	}
}

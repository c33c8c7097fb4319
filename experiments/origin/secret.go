package origin

import (
	"net/url"
	"regexp"
	"strings"

	"specrun/experiments"
)

// tokens are the shapes of secrets that stand under any name.
var tokens = regexp.MustCompile(`\b(hf_[A-Za-z0-9]{16,}|sk-[A-Za-z0-9_-]{16,}|gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}|glpat-[A-Za-z0-9_-]{16,}|` +
	`xox[abprs]-[A-Za-z0-9-]{10,}|AKIA[A-Z0-9]{16}|AIza[A-Za-z0-9_-]{30,}|nvapi-[A-Za-z0-9_-]{16,}|eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*)` +
	`|(?i:\b(bearer|basic) +[A-Za-z0-9._~+/=-]{8,})`)

// isSecret says that a value must not be written anywhere, by the name that it
// stands under or by its shape.
func isSecret(name, value string) bool {
	if experiments.IsSecret(name, value) || secretShape(value) {
		return true
	}
	v, ok := parseJSON(value)
	return ok && v.secret()
}

// secret says that a member, at any depth, is named like a secret or looks so.
func (v jsonValue) secret() bool {
	for i, inner := range v.values {
		if inner.secret() || v.kind == '{' && inner.quoted && isSecret(v.names[i], inner.word) {
			return true
		}
	}
	return v.quoted && secretShape(v.word)
}

func secretShape(value string) bool {
	if tokens.MatchString(value) {
		return true
	}
	if !strings.Contains(value, "://") {
		return false
	}
	u, err := url.Parse(value)
	if err != nil || u.User == nil {
		return strings.Contains(value, "@") && err != nil
	}
	_, password := u.User.Password()
	return password || len(u.User.Username()) >= 16
}

// instead are the variables that an engine reads for a flag that is a secret.
var instead = map[string]map[string]string{
	VLLM: {"api-key": "VLLM_API_KEY", "api_key": "VLLM_API_KEY", "hf-token": "HF_TOKEN", "hf_token": "HF_TOKEN"},
}

package bench

import "encoding/json"

// extensible says whether there is something to ask for beyond the common
// fields; /generate tells all that it knows unasked.
func (j Job) extensible() bool { return j.Endpoint != EndpointGenerate }

// body is what is sent: the fields common to the servers, and with extended
// what only some know: a running count of tokens, and SGLang's numbers of
// speculation for each request. Neither changes what is generated.
func (j Job) body(prompt string, extended bool) ([]byte, error) {
	if j.Endpoint == EndpointGenerate {
		return json.Marshal(map[string]any{"text": prompt, "stream": true,
			"sampling_params": map[string]any{"max_new_tokens": j.MaxTokens, "temperature": j.Temperature, "ignore_eos": j.IgnoreEOS}})
	}
	options := map[string]any{"include_usage": true}
	m := map[string]any{
		"model": j.Model, "max_tokens": j.MaxTokens, "temperature": j.Temperature, "stream": true, "stream_options": options,
	}
	if extended {
		options["continuous_usage_stats"] = true
		m["return_spec_tokens_details"] = true
	}
	if j.IgnoreEOS {
		m["ignore_eos"] = true
	}
	if j.Endpoint == EndpointChat {
		m["messages"] = []map[string]string{{"role": "user", "content": prompt}}
	} else {
		m["prompt"] = prompt
	}
	return json.Marshal(m)
}

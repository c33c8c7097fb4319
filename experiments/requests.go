package experiments

import (
	"bufio"
	"context"
	"net/http"
	"strconv"
	"strings"
	"time"

	"specrun/deploy/server"
)

// runningGauges are what engines call the number of requests that they work on,
// without the labels behind.
var runningGauges = [...]string{"sglang:num_running_reqs", "vllm:num_requests_running", "llamacpp:requests_processing"}

// RunningRequests asks a server on the host how many requests it works on; false
// when it does not tell: not every server counts them, and not for everybody.
func RunningRequests(ctx context.Context, h RemoteHost, port int) (int, bool) {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	client := server.Client(h)
	defer client.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://127.0.0.1:"+strconv.Itoa(port)+"/metrics", nil)
	if err != nil {
		return 0, false
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0, false
	}
	defer resp.Body.Close()
	sum, known := 0.0, false
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		name, value, ok := gauge(lines.Text())
		if !ok {
			continue
		}
		for _, g := range runningGauges {
			if name == g {
				sum, known = sum+value, true
			}
		}
	}
	return int(sum), known && resp.StatusCode == http.StatusOK && lines.Err() == nil
}

// gauge reads "name{labels} value" of the Prometheus text format.
func gauge(line string) (name string, value float64, ok bool) {
	if strings.HasPrefix(line, "#") {
		return "", 0, false
	}
	at := strings.LastIndexByte(line, ' ')
	if at < 0 {
		return "", 0, false
	}
	value, err := strconv.ParseFloat(line[at+1:], 64)
	name, _, _ = strings.Cut(strings.TrimSpace(line[:at]), "{")
	return name, value, err == nil
}

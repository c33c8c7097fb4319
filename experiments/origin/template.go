package origin

import (
	_ "embed"
	"strings"
)

//go:embed template.yaml
var templateText string

// Template is a commented experiment file to be filled in, for a host; "" leaves
// the host open.
func Template(host string) []byte {
	line := "# hosts: [NAME]                    # from hosts.yaml, ssh_config or user@address; or give --host"
	if host != "" {
		line = "hosts: [" + item(host).Value + "]"
		if item(host).Style != 0 {
			line = "hosts: ['" + strings.ReplaceAll(host, "'", "''") + "']"
		}
	}
	return []byte(strings.Replace(templateText, "#HOSTS", line, 1))
}

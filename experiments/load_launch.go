package experiments

import (
	"net/url"
	"regexp"
	"time"

	"gopkg.in/yaml.v3"
)

func (d *decoder) launch(to *string) field {
	return d.word(to, LaunchProcess, LaunchDocker, LaunchPodman, LaunchSystemd, LaunchCommand)
}

// container reads a name, or a map.
func (d *decoder) container(n *yaml.Node, name string, to *ContainerSpec) error {
	if n.Kind == yaml.ScalarNode {
		return d.text(&to.Name)(n, name)
	}
	err := d.object(n, name, map[string]field{"name": d.text(&to.Name), "image": d.text(&to.Image), "args": d.scalarList(&to.Args)})
	switch {
	case err != nil:
		return err
	case (to.Name == "") == (to.Image == ""):
		return d.fail(n, name, "name: is one that runs, image: starts one for each launch", "needs either name or image")
	case to.Name != "" && len(to.Args) > 0:
		return d.fail(n, name, "args belong to image:, they stand between run and the image", "a container that runs takes no args")
	}
	return nil
}

// unit reads a name, or a map.
func (d *decoder) unit(n *yaml.Node, name string, to *UnitSpec) error {
	if n.Kind == yaml.ScalarNode {
		return d.text(&to.Name)(n, name)
	}
	return d.object(n, name, map[string]field{"name": d.text(&to.Name), "user": d.boolean(&to.User)})
}

func (d *decoder) commands(n *yaml.Node, name string, to *CommandsSpec) error {
	return d.object(n, name, map[string]field{"start": d.scalarList(&to.Start), "stop": d.scalarList(&to.Stop), "status": d.scalarList(&to.Status)})
}

func (d *decoder) attach(n *yaml.Node, name string, to **AttachSpec) error {
	a := &AttachSpec{}
	*to = a
	err := d.object(n, name, map[string]field{"url": d.text(&a.URL), "pid": d.integer(&a.PID, 1, 1<<30), "log": d.text(&a.Log)})
	if err != nil {
		return err
	}
	if u, err := url.Parse(a.URL); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return d.fail(n, join(name, "url"), "for example url: http://127.0.0.1:30000, as seen from the host", "%q is no address of a server", a.URL)
	}
	return nil
}

func (d *decoder) ready(n *yaml.Node, name string, to *Ready) error {
	return d.object(n, name, map[string]field{"timeout": d.duration(&to.Timeout), "stall": d.duration(&to.Stall), "url": d.text(&to.URL),
		"marker": func(n *yaml.Node, name string) error {
			if err := d.text(&to.Marker)(n, name); err != nil {
				return err
			}
			if _, err := regexp.Compile(to.Marker); err != nil {
				return d.fail(n, name, "a regular expression (RE2) over lines of the log", "%v", err)
			}
			return nil
		}})
}

// maxGrace bounds how long a stop may wait: behind it stands a host that nobody
// uses.
const maxGrace = 30 * time.Minute

func (d *decoder) stop(n *yaml.Node, name string, grace *time.Duration) error {
	return d.object(n, name, map[string]field{"grace": func(n *yaml.Node, name string) error {
		if err := d.duration(grace)(n, name); err != nil {
			return err
		}
		if *grace > maxGrace {
			return d.fail(n, name, "it is the time a server gets to end its requests before it is killed", "%v is more than %v", *grace, maxGrace)
		}
		return nil
	}})
}

// launchParts makes sure that what is said of a launcher fits the launcher.
func (d *decoder) launchParts(n *yaml.Node, name string, s *ServerSpec) error {
	inContainer := s.Launch == LaunchDocker || s.Launch == LaunchPodman
	for _, part := range []struct {
		key     string
		present bool
		wanted  bool
		advice  string
	}{
		{"container", s.Container.Name != "" || s.Container.Image != "", inContainer, "container: NAME of one that runs, or container: {image: IMAGE, args: [...]}"},
		{"unit", s.Unit.Name != "", s.Launch == LaunchSystemd, "unit: sglang.service"},
		{"commands", len(s.Commands.Start) > 0, s.Launch == LaunchCommand, "commands: {start: [...], stop: [...], status: [...]}"},
	} {
		switch {
		case part.wanted && !part.present:
			return d.fail(n, join(name, part.key), part.advice, "is missing, launch: %s needs it", s.Launch)
		case part.present && !part.wanted:
			return d.fail(n, join(name, part.key), "see launch:", "does not belong to launch: %s", s.Launch)
		}
	}
	if s.Attach != nil && (s.Launch != LaunchProcess || len(s.Flags) > 0) {
		return d.fail(n, join(name, "attach"), "leave launch and flags out: a server that somebody else runs has its own", "cannot be started with flags")
	}
	return nil
}

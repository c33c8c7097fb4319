package main

import (
	"errors"
	"io/fs"
	"os"

	"specrun/configs"
	"specrun/experiments"
	"specrun/experiments/lab"
)

// specFile is the experiment file that is read when none is named.
const specFile = "specrun.yaml"

// specUsage is the help of -f.
const specUsage = "experiment `FILE` (default ./specrun.yaml, then the host's; --host lab has its own, whatever ./specrun.yaml says)"

// optionalSpec finds the experiment file: file (-f), else for the practice host
// its own, else ./specrun.yaml, else the host entry's; nil when there is none. path
// is "" for the built-in one.
func (a *app) optionalSpec(file string, host configs.Host) (spec *experiments.Spec, path string, err error) {
	if file == "" && host.Kind != configs.Lab {
		if _, err := os.Stat(specFile); err == nil {
			file = specFile
		} else {
			file = host.Spec
		}
	}
	if file == "" && host.Kind == configs.Lab {
		spec, err := experiments.LoadSpec(lab.SpecName, lab.Spec())
		return spec, "", err
	}
	if file == "" {
		return nil, "", nil
	}
	src, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, "", usagef("give -f the path of an experiment file", "%s: no such file", file)
	}
	if err != nil {
		return nil, "", err
	}
	spec, err = experiments.LoadSpec(file, src)
	return spec, file, err
}

// requiredSpec is optionalSpec for commands that cannot do without one. It says so
// when the practice host's own is used beside a ./specrun.yaml.
func (a *app) requiredSpec(file string, host configs.Host) (*experiments.Spec, string, error) {
	spec, path, err := a.optionalSpec(file, host)
	if err == nil && spec == nil {
		err = usagef("specrun init writes one, from the server that runs with --from-pid PID; or give -f FILE, or set spec: for the host in hosts.yaml",
			"no experiment file: neither -f, ./%s nor spec: of host %s", specFile, host.Name)
	}
	if err == nil && file == "" && host.Kind == configs.Lab {
		if _, missing := os.Stat(specFile); missing == nil {
			a.note("./%s is not read: the practice host has an experiment of its own; -f %s takes the file", specFile, specFile)
		}
	}
	return spec, path, err
}

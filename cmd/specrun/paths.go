package main

import (
	"strings"

	"specrun/deploy"
	"specrun/patches"
)

// shortPaths gives for each path of a host the way it is shown: below the folder
// that holds the engine's package, sglang/srt/speculative/eagle_worker.py. A path
// that another would then be taken for stays whole, and so do all with -v.
func (a *app) shortPaths(paths []string, packages map[string]bool) func(string) string {
	if a.flags.verbose {
		return func(path string) string { return path }
	}
	users := map[string]int{}
	for _, p := range paths {
		users[withinPackage(p, packages)]++
	}
	return func(path string) string {
		if short := withinPackage(path, packages); users[short] == 1 {
			return short
		}
		return path
	}
}

// withinPackage cuts what is before the package's own folder; the innermost one
// counts, as in /src/sglang/python/sglang/srt/server.py.
func withinPackage(path string, packages map[string]bool) string {
	parts := strings.Split(path, "/")
	for i := len(parts) - 2; i > 0; i-- {
		if packages[parts[i]] {
			return strings.Join(parts[i:], "/")
		}
	}
	return path
}

// packagesOf are the top-level packages that patches change.
func packagesOf(sets ...[]*patches.Patch) map[string]bool {
	packages := map[string]bool{}
	for _, set := range sets {
		for _, p := range set {
			for _, t := range p.Targets {
				top, _, _ := strings.Cut(t.Module, ".")
				packages[top] = top != ""
			}
		}
	}
	return packages
}

// pathsOf are the files of a plan or an outcome.
func pathsOf(sets ...[]deploy.PlannedFile) []string {
	var paths []string
	for _, files := range sets {
		for _, f := range files {
			paths = append(paths, f.Path)
		}
	}
	return paths
}

package experiments

import (
	"crypto/sha256"
	"fmt"
	"regexp"
)

// ofSession are variables of whoever logged in: they say nothing about the
// server, and differ between any two logins.
var ofSession = regexp.MustCompile(`^(_|TERM(_.*)?|COLORTERM|SSH_.*|PWD|OLDPWD|SHLVL|LOGNAME|USER|USERNAME|MAIL|LS_COLORS|LSCOLORS|` +
	`XDG_(SESSION|RUNTIME|DATA_DIRS|CONFIG_DIRS|SEAT|VTNR|CURRENT|MENU|GREETER).*|DBUS_.*|DISPLAY|WAYLAND_DISPLAY|XAUTHORITY|WINDOWID|` +
	`TMUX.*|STY|SCREEN.*|PS[0-9]|PROMPT.*|HIST.*|EDITOR|VISUAL|PAGER|LESS.*|MANPATH|INFOPATH|BROWSER|GPG_.*|GNOME_.*|KDE_.*|DESKTOP_.*|GDM.*|` +
	`VSCODE_.*|INVOCATION_ID|JOURNAL_STREAM|SYSTEMD_.*|MANAGERPID|NOTIFY_SOCKET|LISTEN_.*|MOTD_.*|DEBUGINFOD_.*|SUDO_.*|LINES|COLUMNS|` +
	`CONDA_PROMPT.*|WHICH_.*|BASH_FUNC_.*|SPECRUN_RUN_ID)$`)

// longestValue bounds what is kept of one variable: bash functions and colour
// tables can be pages.
const longestValue = 2048

// environment is what is kept of a process's: all of it but what the session
// brought, with secrets hidden.
func environment(all map[string]string, r *redactor) map[string]string {
	out := r.values(all)
	for name, value := range out {
		switch {
		case ofSession.MatchString(name):
			delete(out, name)
		case len(value) > longestValue:
			out[name] = fmt.Sprintf("%s... (%d bytes, sha256 %.12x)", value[:longestValue], len(value), sha256.Sum256([]byte(value)))
		}
	}
	return out
}

// cacheFolders are where the libraries that a server with this environment
// computes with keep compiled kernels; "~" is the home on the host.
func cacheFolders(env map[string]string, user string) []string {
	home := firstOf(env["HOME"], "~")
	cache := firstOf(env["XDG_CACHE_HOME"], home+"/.cache")
	inductor := env["TORCHINDUCTOR_CACHE_DIR"]
	if inductor == "" && user != "" {
		inductor = firstOf(env["TMPDIR"], "/tmp") + "/torchinductor_" + user
	}
	var out []string
	seen := map[string]bool{}
	for _, folder := range []string{
		firstOf(env["TRITON_CACHE_DIR"], firstOf(env["TRITON_HOME"], home)+"/.triton/cache"),
		inductor,
		firstOf(env["TORCH_EXTENSIONS_DIR"], cache+"/torch_extensions"),
		firstOf(env["FLASHINFER_WORKSPACE_BASE"], home) + "/.cache/flashinfer",
		firstOf(env["TVM_FFI_CACHE_DIR"], cache+"/tvm-ffi"),
		firstOf(env["SGLANG_DG_CACHE_DIR"], env["SGL_DG_CACHE_DIR"], env["DG_JIT_CACHE_DIR"], home+"/.deep_gemm"),
		firstOf(env["SGLANG_CACHE_DIR"], cache+"/sglang"),
		firstOf(env["VLLM_CACHE_ROOT"], cache+"/vllm"),
		firstOf(env["CUDA_CACHE_PATH"], home+"/.nv/ComputeCache"),
	} {
		if folder != "" && !seen[folder] {
			seen[folder] = true
			out = append(out, folder)
		}
	}
	return out
}

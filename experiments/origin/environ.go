package origin

import (
	"path"
	"slices"
	"strings"
)

// prefixes begin the names of variables that change what a server does: they are
// kept whatever the session has.
var prefixes = []string{"SGLANG_", "SGL_", "VLLM_", "NCCL_", "RCCL_", "CUDA_", "CUDNN_", "CUBLAS_", "TORCH_", "TORCHINDUCTOR_", "TORCHDYNAMO_", "PYTORCH_", "FLASHINFER_", "FLASH_ATTENTION_",
	"TRITON_", "TVM_", "HF_", "HUGGINGFACE_", "TRANSFORMERS_", "SAFETENSORS_", "TOKENIZERS_", "MODELSCOPE_", "DG_", "DEEPGEMM_", "DEEP_GEMM_", "DEEPEP_", "NVSHMEM_", "NVTE_", "CUTE_", "CUTLASS_",
	"MC_", "MOONCAKE_", "LMCACHE_", "GLOO_", "UCX_", "OMP_", "MKL_", "KMP_", "GOMP_", "HIP_", "ROCR_", "HSA_", "AITER_", "RAY_", "EAGLE", "LLAMA_", "GGML_", "TRTLLM_", "TLLM_", "MALLOC_", "TCMALLOC_"}

// differing are variables that matter only where they are others than a session
// has: the loader's, the interpreter's, compilers', caches', proxies'.
var differing = []string{"LD_LIBRARY_PATH", "LD_PRELOAD", "PATH", "HOME", "TMPDIR", "XDG_CACHE_HOME", "CC", "CXX", "CPATH", "LIBRARY_PATH", "MAX_JOBS",
	"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy", "ALL_PROXY", "all_proxy", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "LANG", "LC_ALL"}

// Keep chooses of a process's environment what belongs into an experiment file:
// variables of the engine and of what it is built on, and a few others where the
// session that specrun starts a server in has another value. python is the
// interpreter, whose folder specrun puts into PATH itself. A nil session knows
// nothing: then of the few only the loader's and interpreter's are kept.
func Keep(environ, session map[string]string, python string) map[string]string {
	kept := map[string]string{}
	for name, value := range environ {
		switch {
		case slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(name, p) }):
			kept[name] = value
		case strings.HasPrefix(name, "PYTHON") || slices.Contains(differing, name):
			was, had := session[name]
			switch {
			case had && was == value:
			case session == nil && !strings.HasPrefix(name, "PYTHON") && !strings.HasPrefix(name, "LD_"):
			case name == "PATH" && !reaches(value, was, python):
			case (name == "LANG" || name == "LC_ALL") && strings.HasSuffix(strings.ToUpper(value), "UTF-8"):
			default:
				kept[name] = value
			}
		}
	}
	return kept
}

// reaches says that a PATH has a folder which the session's has not, nor the
// interpreter's.
func reaches(value, session, python string) bool {
	known := append(strings.Split(session, ":"), path.Dir(python), "")
	return slices.ContainsFunc(strings.Split(value, ":"), func(dir string) bool { return !slices.Contains(known, dir) })
}

# Prints what could explain a number, one "group key value" a line.
# Behind remote.HostLib. Changes nothing.
fact() {
	[ -z "$3" ] || printf '%s\t%s\t%s\n' "$1" "$2" "$(printf '%s' "$3" | tr '\t\n' '  ')"
}

main() {
	fact host hostname "$(uname -n)"
	fact host kernel "$(uname -sr)"
	fact host machine "$(uname -m)"
	fact host os "$(. /etc/os-release 2>/dev/null && printf '%s' "$PRETTY_NAME")"
	if [ -r /proc/cpuinfo ]; then
		fact host cpu "$(sed -n 's/^model name[[:space:]]*: //p' /proc/cpuinfo | head -n 1)"
		fact host cpus "$(grep -c '^processor' /proc/cpuinfo)"
	fi
	[ ! -r /proc/meminfo ] || fact host memory_kib "$(sed -n 's/^MemTotal:[[:space:]]*\([0-9]*\).*/\1/p' /proc/meminfo)"
	if command -v nvidia-smi >/dev/null 2>&1; then
		nvidia-smi --query-gpu=index,name,uuid,driver_version,memory.total,power.limit,clocks.max.sm,persistence_mode --format=csv,noheader 2>/dev/null |
			while IFS=, read -r index name uuid driver memory power clock persistence; do
				fact gpu "$index name" "${name# }"
				fact gpu "$index uuid" "${uuid# }"
				fact gpu "$index memory" "${memory# }"
				fact gpu "$index power_limit" "${power# }"
				fact gpu "$index max_clock" "${clock# }"
				fact gpu "$index persistence" "${persistence# }"
				[ "$index" != 0 ] || fact gpu driver "${driver# }"
			done
		fact gpu cuda "$(nvidia-smi 2>/dev/null | sed -n 's/.*CUDA Version: *\([0-9.]*\).*/\1/p' | head -n 1)"
	fi
	expand "$PYTHON"
	fact code python_version "$("$expanded" -c 'import platform; print(platform.python_version())' 2>/dev/null </dev/null)"
	return 0
}

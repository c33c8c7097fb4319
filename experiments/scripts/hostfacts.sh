# Prints what could explain a number and does not change while a host runs.
# Behind remote.HostLib and smi.sh. Changes nothing.

# first FILE sets line to its first line; false without one.
first() {
	line=
	{ IFS= read -r line <"$1"; } 2>/dev/null
	[ -n "$line" ]
}

main() {
	fact host hostname "$(uname -n)"
	fact host kernel "$(uname -sr)"
	fact host machine "$(uname -m)"
	fact host os "$(. /etc/os-release 2>/dev/null && printf '%s' "$PRETTY_NAME")"
	if [ -r /proc/cpuinfo ]; then
		fact host cpu "$(sed -n 's/^model name[[:space:]]*: //p' /proc/cpuinfo | head -n 1)"
		fact host cpus "$(grep -c '^processor' /proc/cpuinfo)"
		virtual=
		! grep -q '^flags.* hypervisor' /proc/cpuinfo || virtual="yes"
		if first /sys/class/dmi/id/product_name && [ -n "$virtual" ]; then virtual="yes, $line"; fi
		fact host virtual_machine "${virtual:-no}"
	fi
	[ ! -r /proc/meminfo ] || fact host memory_kib "$(sed -n 's/^MemTotal:[[:space:]]*\([0-9]*\).*/\1/p' /proc/meminfo)"
	container=
	[ ! -e /.dockerenv ] || container=docker
	[ ! -e /run/.containerenv ] || container=podman
	[ -z "$KUBERNETES_SERVICE_HOST" ] || container=kubernetes
	fact host container "${container:-no}"
	! first /proc/cmdline || fact host kernel_options "$line"
	! first /sys/devices/system/cpu/smt/active || fact host smt "$line"
	! first /sys/module/nvidia/version || fact gpu kernel_module "$line"
	nodes=
	for node in /sys/devices/system/node/node[0-9]*; do
		# Not by read: it asks for single bytes, which this file does not give.
		line=$(cat "$node/cpulist" 2>/dev/null)
		[ -z "$line" ] || nodes="$nodes${nodes:+; }${node##*/node}: $line"
	done
	fact host numa_cpus "$nodes"
	smi_there || return 0
	smi_query index,name,uuid,driver_version,memory.total,vbios_version,power.default_limit,clocks.max.sm,clocks.max.memory,pcie.link.gen.max,pcie.link.width.max,pcie.link.width.current
	smi topo -m | sed 's/^/topo	/'
	fact gpu cuda "$(smi | sed -n 's/.*CUDA Version: *\([0-9.]*\).*/\1/p' | head -n 1)"
	return 0
}

# What nvidia-smi of the practice host prints. Input: "card pid MiB name" of each process that holds memory.

BEGIN {
	cards = ENVIRON["CARDS"] + 0; driver = ENVIRON["DRIVER"]; memory = 143771
	n = split("gpu_idle applications_clocks_setting sw_power_cap hw_slowdown sync_boost sw_thermal_slowdown hw_thermal_slowdown hw_power_brake_slowdown", reasons, " ")
	split(ENVIRON["FORMAT"], given, ",")
	for (i in given) {
		if (given[i] !~ /^(csv|noheader|nounits|)$/) { print "Format modifier is not recognized."; status = 2; exit 2 }
		modifier[given[i]] = 1
	}
	split(ENVIRON["ID"], ids, ",")
	for (i in ids) {
		sub(/^GPU-[-0-9a-f]*-0*/, "", ids[i])
		if (ids[i] == "") ids[i] = 0
		if (ids[i] !~ /^[0-9]+$/ || ids[i] + 0 >= cards) { print "No devices were found"; status = 6; exit 6 }
		wanted[ids[i] + 0] = 1; some = 1
	}
	fields = split(ENVIRON["FIELDS"], field, ",")
	for (i = 1; i <= fields; i++) {
		gsub(/^ +| +$/, "", field[i])
		name[i] = canonical(field[i])
		if (!known(name[i])) { printf "Field \"%s\" is not a valid field to query.\n\n", field[i]; status = 2; exit 2 }
	}
}

{
	card = $1; pid = $2; mib = $3
	sub(/^[^ ]+ [^ ]+ [^ ]+ /, "")
	count++
	app_card[count] = card; app_pid[count] = pid; app_mib[count] = mib; app_name[count] = $0
	used[card] += mib; busy[card] = 1
}

END {
	if (status) exit status
	phase = ENVIRON["UPTIME"]; phase -= int(phase / ENVIRON["PERIOD"]) * ENVIRON["PERIOD"]
	throttled = phase < ENVIRON["PERIOD"] * ENVIRON["THROTTLE"] / 100
	what = ENVIRON["WHAT"]
	if (what == "gpu" || what == "apps") rows()
	else if (what == "list") for (g = 0; g < cards; g++) { if (!some || g in wanted) printf "GPU %d: %s (UUID: %s)\n", g, ENVIRON["NAME"], uuid(g) }
	else if (what == "version") printf "NVIDIA-SMI version  : %s\nNVML version        : %s\nDRIVER version      : %s\nCUDA Version        : 13.0\n", driver, driver, driver
	else if (what == "topo") topology()
	else table()
}

function uuid(g) { return sprintf("GPU-70726163-7469-6365-0000-%012x", g) }
function bus(g) { return sprintf("00000000:%02X:00.0", 10 + g) }

# canonical is the name under which the header has a field.
function canonical(f) {
	sub(/^clocks_throttle_reasons\./, "clocks_event_reasons.", f)
	if (f ~ /^clocks\.(sm|mem|gr|video|memory|graphics)$/) sub(/^clocks\./, "clocks.current.", f)
	sub(/^clocks\.current\.mem$/, "clocks.current.memory", f)
	sub(/^clocks\.current\.gr$/, "clocks.current.graphics", f)
	sub(/^clocks\.max\.gr$/, "clocks.max.graphics", f)
	sub(/^clocks\.max\.mem$/, "clocks.max.memory", f)
	if (f == "gpu_bus_id" && ENVIRON["WHAT"] == "gpu") f = "pci.bus_id"
	if (f == "gpu_uuid" && ENVIRON["WHAT"] == "gpu") f = "uuid"
	if (f == "gpu_name" && ENVIRON["WHAT"] == "gpu") f = "name"
	if (f == "name" && ENVIRON["WHAT"] == "apps") f = "process_name"
	if (f == "used_memory") f = "used_gpu_memory"
	return f
}

function known(f) {
	if (ENVIRON["WHAT"] == "apps") return f ~ /^(timestamp|gpu_name|gpu_bus_id|gpu_serial|gpu_uuid|pid|process_name|used_gpu_memory)$/
	return value(f, 0) != "?"
}

function unit(f) {
	if (f ~ /^memory\./ || f == "used_gpu_memory") return "MiB"
	if (f ~ /^(clocks\.(current|max|applications)|clocks\.default_applications)\./) return "MHz"
	if (f ~ /^(power\.(draw|limit|default_limit|min_limit|max_limit)|enforced\.power\.limit)/) return "W"
	if (f ~ /^utilization\./ || f == "fan.speed") return "%"
	return ""
}

# active tells whether the card's clock is held down for this reason.
function active(reason, g) {
	if (reason == "gpu_idle") return !(g in busy)
	if (!(g in busy) || !throttled) return 0
	if (reason == ENVIRON["REASON"]) return 1
	return reason == "hw_slowdown" && ENVIRON["REASON"] ~ /^hw_/
}

function clock(g) {
	if (!(g in busy)) return 345
	return int((throttled ? ENVIRON["CLOCK"] / (1 + ENVIRON["SLOWER"] / 100) : ENVIRON["CLOCK"]) / 15 + 0.5) * 15
}

function power(g) {
	if (!(g in busy)) return ENVIRON["POWER"] * 0.11
	return ENVIRON["POWER"] * (throttled && ENVIRON["REASON"] ~ /power/ ? 1 : 0.6)
}

function temperature(g) {
	if (!(g in busy)) return 30
	return throttled && ENVIRON["REASON"] ~ /thermal/ ? 88 : ENVIRON["TEMPERATURE"]
}

function mask(g,    i, bits, bit) {
	bit = 1
	for (i = 1; i <= 8; i++) { if (active(reasons[i], g)) bits += bit; bit *= 2 }
	return sprintf("0x%016X", bits)
}

# value of a field of a card; "?" where there is no such field.
function value(f, g,    r) {
	if (f == "index") return g
	if (f == "count") return cards
	if (f == "name") return ENVIRON["NAME"]
	if (f == "uuid") return uuid(g)
	if (f == "serial") return sprintf("%013d", 1700000000000 + g)
	if (f == "pci.bus_id") return bus(g)
	if (f == "driver_version") return driver
	if (f == "vbios_version") return "96.00.00.00.01"
	if (f == "timestamp") return ENVIRON["TODAY"]
	if (f == "compute_cap") return "9.0"
	if (f == "pstate") return "P0"
	if (f == "persistence_mode" || f == "ecc.mode.current" || f == "ecc.mode.pending") return "Enabled"
	if (f == "mig.mode.current" || f == "mig.mode.pending" || f == "display_active") return "Disabled"
	if (f == "compute_mode") return "Default"
	if (f == "fan.speed") return "[N/A]"
	if (f ~ /^ecc\.errors\.(un)?corrected\.(volatile|aggregate)\.total$/) return 0
	if (f == "memory.total") return memory
	if (f == "memory.used") return used[g] + 0
	if (f == "memory.free") return memory - used[g]
	if (f == "memory.reserved") return 0
	if (f == "utilization.gpu") return g in busy ? 97 : 0
	if (f == "utilization.memory") return g in busy ? 61 : 0
	if (f == "temperature.gpu") return temperature(g)
	if (f == "temperature.memory") return temperature(g) + 5
	if (f == "power.draw" || f == "power.draw.instant" || f == "power.draw.average") return sprintf("%.2f", power(g))
	if (f ~ /^(power\.(limit|default_limit|max_limit)|enforced\.power\.limit)$/) return sprintf("%.2f", ENVIRON["POWER"])
	if (f == "power.min_limit") return "200.00"
	if (f ~ /^clocks\.current\.(sm|graphics)$/) return clock(g)
	if (f ~ /^clocks\.(max|applications)\.(sm|graphics)$/) return ENVIRON["CLOCK"] + 0
	if (f ~ /^clocks\.(current|max|applications)\.memory$/) return 3201
	if (f == "clocks.current.video") return g in busy ? 1545 : 765
	if (f == "pcie.link.gen.current" || f == "pcie.link.gen.max") return 5
	if (f == "pcie.link.width.current" || f == "pcie.link.width.max") return 16
	if (f == "clocks_event_reasons.active") return mask(g)
	if (f == "clocks_event_reasons.supported") return "0x00000000000001FF"
	for (r = 1; r <= 8; r++) if (f == "clocks_event_reasons." reasons[r]) return active(reasons[r], g) ? "Active" : "Not Active"
	return "?"
}

function app(f, a) {
	if (f == "timestamp") return ENVIRON["TODAY"]
	if (f == "gpu_name") return ENVIRON["NAME"]
	if (f == "gpu_bus_id") return bus(app_card[a])
	if (f == "gpu_serial") return value("serial", app_card[a])
	if (f == "gpu_uuid") return uuid(app_card[a])
	if (f == "pid") return app_pid[a]
	if (f == "process_name") return app_name[a]
	return app_mib[a]
}

function rows(    g, a, i, u) {
	if (!("noheader" in modifier)) {
		for (i = 1; i <= fields; i++) {
			u = unit(name[i])
			printf "%s%s%s", (i > 1 ? ", " : ""), name[i], (u == "" ? "" : " [" u "]")
		}
		print ""
	}
	if (what == "gpu") {
		for (g = 0; g < cards; g++) if (!some || g in wanted) row(g, 0)
	} else for (a = 1; a <= count; a++) if (!some || app_card[a] in wanted) row(0, a)
}

function row(g, a,    i, v, u) {
	for (i = 1; i <= fields; i++) {
		v = a ? app(name[i], a) : value(name[i], g)
		u = unit(name[i])
		printf "%s%s%s", (i > 1 ? ", " : ""), v, (u == "" || v == "[N/A]" || "nounits" in modifier ? "" : " " u)
	}
	print ""
}

function topology(    g, h) {
	printf "\t\033[4m"
	for (g = 0; g < cards; g++) printf "GPU%d\t", g
	printf "CPU Affinity\tNUMA Affinity\tGPU NUMA ID\033[0m\n"
	for (g = 0; g < cards; g++) {
		printf "GPU%d", g
		for (h = 0; h < cards; h++) printf "\t%s", (g == h ? " X " : "NV18")
		printf "\t0-%d\t0\t\tN/A\n", ENVIRON["CPUS"] - 1
	}
	print "\nLegend:\n"
	print "  X    = Self"
	print "  SYS  = Connection traversing PCIe as well as the SMP interconnect between NUMA nodes (e.g., QPI/UPI)"
	print "  NODE = Connection traversing PCIe as well as the interconnect between PCIe Host Bridges within a NUMA node"
	print "  PHB  = Connection traversing PCIe as well as a PCIe Host Bridge (typically the CPU)"
	print "  PXB  = Connection traversing multiple PCIe bridges (without traversing the PCIe Host Bridge)"
	print "  PIX  = Connection traversing at most a single PCIe bridge"
	print "  NV#  = Connection traversing a bonded set of # NVLinks"
}

function table(    g, a) {
	print ENVIRON["TODAY"] "       "
	print "+-----------------------------------------------------------------------------------------+"
	printf "| NVIDIA-SMI %-22s Driver Version: %-14s CUDA Version: 13.0     |\n", driver, driver
	print "+-----------------------------------------+------------------------+----------------------+"
	print "| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |"
	print "| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |"
	print "|                                         |                        |               MIG M. |"
	print "|=========================================+========================+======================|"
	for (g = 0; g < cards; g++) {
		printf "| %3d  %-31.28sOn  |   %s Off |                    0 |\n", g, ENVIRON["NAME"], bus(g)
		printf "| N/A  %3dC    P0          %4dW / %4dW |  %6dMiB / %6dMiB |    %3d%%      Default |\n", temperature(g), power(g), ENVIRON["POWER"], used[g], memory, value("utilization.gpu", g)
		print "|                                         |                        |             Disabled |"
		print "+-----------------------------------------+------------------------+----------------------+"
	}
	print ""
	print "+-----------------------------------------------------------------------------------------+"
	print "| Processes:                                                                              |"
	print "|  GPU   GI   CI              PID   Type   Process name                        GPU Memory |"
	print "|        ID   ID                                                               Usage      |"
	print "|=========================================================================================|"
	if (!count) print "|  No running processes found                                                             |"
	for (a = 1; a <= count; a++) printf "| %4d   N/A  N/A %16d      C   %-34.34s %7dMiB |\n", app_card[a], app_pid[a], app_name[a], app_mib[a]
	print "+-----------------------------------------------------------------------------------------+"
}

package pool

import (
	"bytes"
	"math"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// physicalCores counts the distinct cores among the processors that this
// process may run on; 0 if unknown.
func physicalCores() int {
	var set unix.CPUSet
	if unix.SchedGetaffinity(0, &set) != nil {
		return 0
	}
	cores := make(map[string]bool)
	found := 0
	for cpu := 0; found < set.Count(); cpu++ {
		if cpu >= len(set)*strconv.IntSize {
			return 0
		}
		if !set.IsSet(cpu) {
			continue
		}
		found++
		// The list of processors that share a core identifies the core.
		siblings, err := os.ReadFile("/sys/devices/system/cpu/cpu" + strconv.Itoa(cpu) + "/topology/thread_siblings_list")
		if err != nil {
			return 0
		}
		cores[string(bytes.TrimSpace(siblings))] = true
	}
	return len(cores)
}

// quota returns the processor time that the control group grants, in
// processors, rounded up; 0 without a limit.
func quota() int {
	groups, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return 0
	}
	limit := math.Inf(1)
	for line := range strings.SplitSeq(string(groups), "\n") {
		_, rest, ok := strings.Cut(line, ":")
		if !ok {
			continue
		}
		controllers, group, ok := strings.Cut(rest, ":")
		if !ok {
			continue
		}
		read := quotaV1
		root := "/sys/fs/cgroup/cpu"
		switch {
		case controllers == "":
			read, root = quotaV2, "/sys/fs/cgroup"
		case !strings.Contains(","+controllers+",", ",cpu,"):
			continue
		}
		// The limits of all ancestor groups apply too.
		for g := path.Clean("/" + group); ; g = path.Dir(g) {
			limit = min(limit, read(filepath.Join(root, g)))
			if g == "/" {
				break
			}
		}
	}
	if math.IsInf(limit, 1) {
		return 0
	}
	return max(1, int(math.Ceil(limit)))
}

// quotaV2 reads cpu.max, "QUOTA PERIOD" in µs or "max PERIOD".
func quotaV2(dir string) float64 {
	b, err := os.ReadFile(filepath.Join(dir, "cpu.max"))
	if err != nil {
		return math.Inf(1)
	}
	q, period, ok := strings.Cut(strings.TrimSpace(string(b)), " ")
	if !ok {
		return math.Inf(1)
	}
	return ratio(q, period)
}

// quotaV1 reads cpu.cfs_quota_us (-1 for none) and cpu.cfs_period_us.
func quotaV1(dir string) float64 {
	q, err := os.ReadFile(filepath.Join(dir, "cpu.cfs_quota_us"))
	if err != nil {
		return math.Inf(1)
	}
	period, err := os.ReadFile(filepath.Join(dir, "cpu.cfs_period_us"))
	if err != nil {
		return math.Inf(1)
	}
	return ratio(strings.TrimSpace(string(q)), strings.TrimSpace(string(period)))
}

func ratio(quota, period string) float64 {
	q, err := strconv.ParseFloat(quota, 64)
	if err != nil || q <= 0 {
		return math.Inf(1)
	}
	p, err := strconv.ParseFloat(period, 64)
	if err != nil || p <= 0 {
		return math.Inf(1)
	}
	return q / p
}

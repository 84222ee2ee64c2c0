package farm

import (
	"fmt"
	"maps"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"

	"mm-abi.org/mm/core/cpu"
	"mm-abi.org/mm/internal/fsx"
)

// The capabilities that are amounts: a need is met by as much or more.
const (
	ram   = "ram"
	cores = "cores"
)

const maxNeeds = 32

// Capabilities describe a worker: labels such as avx512, cpu=vnni or engine=llamacpp, and
// amounts such as ram=16G and cores=8.
type Capabilities map[string]bool

// label matches a capability and a need.
var label = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z0-9][a-z0-9._-]*(=[A-Za-z0-9._-]+)?$`) })

// Detect returns the capabilities of this machine: the level of its kernels (cpu=LEVEL, and
// a label for every level included), its system, its memory and its cores.
func Detect() Capabilities {
	c := Capabilities{"cpu=" + string(cpu.Use()): true, runtime.GOOS: true, runtime.GOARCH: true, cores + "=" + strconv.Itoa(runtime.GOMAXPROCS(0)): true}
	for _, l := range cpu.Machine() {
		if cpu.Has(l) {
			c[string(l)] = true
		}
	}
	if n := memory(); n > 0 {
		c[ram+"="+strconv.FormatInt(n, 10)] = true
	}
	return c
}

// memory returns the memory of the machine in bytes, or 0 if it is unknown.
func memory() int64 {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) == 3 && f[0] == "MemTotal:" {
			n, _ := strconv.ParseInt(f[1], 10, 64)
			return n << 10
		}
	}
	return 0
}

// Add adds capabilities, separated by commas. An amount replaces the one before.
func (c Capabilities) Add(list string) error {
	for one := range strings.SplitSeq(list, ",") {
		one = strings.TrimSpace(one)
		name, n, err := amount(one)
		if err != nil {
			return err
		}
		if n > 0 {
			maps.DeleteFunc(c, func(k string, _ bool) bool { return strings.HasPrefix(k, name+"=") })
		}
		c[one] = true
	}
	return nil
}

// String formats the capabilities, sorted.
func (c Capabilities) String() string { return strings.Join(slices.Sorted(maps.Keys(c)), ",") }

// amount parses a label. n is positive for an amount.
func amount(one string) (name string, n int64, err error) {
	if !label().MatchString(one) {
		return "", 0, fmt.Errorf("invalid capability %q, want a name such as avx512, engine=llamacpp or ram=16G", one)
	}
	name, value, _ := strings.Cut(one, "=")
	switch name {
	case ram:
		n, err = fsx.ParseSize(value)
	case cores:
		n, err = strconv.ParseInt(value, 10, 32)
	default:
		return name, 0, nil
	}
	if err == nil && n <= 0 {
		err = fmt.Errorf("invalid capability %q: want a positive amount", one)
	}
	return name, n, err
}

// parseNeeds checks the needs of a job.
func parseNeeds(needs []string) (Capabilities, error) {
	if len(needs) > maxNeeds {
		return nil, fmt.Errorf("job: got %d needs, limit %d", len(needs), maxNeeds)
	}
	c := Capabilities{}
	for _, one := range needs {
		if _, _, err := amount(one); err != nil {
			return nil, fmt.Errorf("job: %w", err)
		}
		c[one] = true
	}
	return c, nil
}

// Meets reports whether a worker with the capabilities meets the needs.
func (c Capabilities) Meets(needs []string) bool {
	return !slices.ContainsFunc(needs, func(need string) bool { return !c.meets(need) })
}

func (c Capabilities) meets(need string) bool {
	name, want, err := amount(need)
	if err != nil || want == 0 {
		return err == nil && c[need]
	}
	for have := range c {
		if other, n, err := amount(have); err == nil && other == name && n >= want {
			return true
		}
	}
	return false
}

// class returns the name of a set of needs in the subjects of the queue.
func class(needs []string) string {
	if len(needs) == 0 {
		return "any"
	}
	return hexSum([]byte(strings.Join(needs, ",")))[:16]
}

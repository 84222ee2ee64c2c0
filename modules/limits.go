package modules

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	"mm-abi.org/mm/schemas"
)

// Limits are the resource limits of a call of a skill. A zero field sets no limit.
type Limits struct {
	CPU         CPU    `json:"cpu,omitempty"`
	Mem         string `json:"mem,omitempty"`    // "512Mi"
	MemMB       int64  `json:"mem_mb,omitempty"` // the same, in MiB
	TimeoutMS   int64  `json:"timeout_ms,omitempty"`
	OutputBytes int64  `json:"output_bytes,omitempty"`
}

// CPU is a number of cores, as a number or as "500m".
type CPU string

// UnmarshalJSON parses a number or a text.
func (c *CPU) UnmarshalJSON(b []byte) error {
	var s string
	if json.Unmarshal(b, &s) == nil {
		*c = CPU(s)
		return nil
	}
	*c = CPU(b)
	return nil
}

// MilliCPU returns the CPU limit in thousandths of a core, or 0.
func (l *Limits) MilliCPU() int64 {
	if l == nil {
		return 0
	}
	n, _ := schemas.ParseCPU(string(l.CPU))
	return n
}

// MemBytes returns the memory limit in bytes, or 0.
func (l *Limits) MemBytes() int64 {
	if l == nil {
		return 0
	}
	if l.MemMB > 0 {
		return l.MemMB << 20
	}
	n, _ := schemas.ParseMem(l.Mem)
	return n
}

// Effective holds the limits of a call after merging. 0 means unlimited.
type Effective struct {
	MilliCPU    int64 `json:"milli_cpu,omitempty"`
	MemBytes    int64 `json:"mem_bytes,omitempty"`
	TimeoutMS   int64 `json:"timeout_ms,omitempty"`
	OutputBytes int64 `json:"output_bytes,omitempty"`
}

// Effective returns l as effective limits.
func (l *Limits) Effective() Effective {
	if l == nil {
		return Effective{}
	}
	return Effective{l.MilliCPU(), l.MemBytes(), l.TimeoutMS, l.OutputBytes}
}

// Merge returns the smaller limit of each resource.
func (e Effective) Merge(o Effective) Effective {
	return Effective{
		MilliCPU:    smaller(e.MilliCPU, o.MilliCPU),
		MemBytes:    smaller(e.MemBytes, o.MemBytes),
		TimeoutMS:   smaller(e.TimeoutMS, o.TimeoutMS),
		OutputBytes: smaller(e.OutputBytes, o.OutputBytes),
	}
}

func smaller(a, b int64) int64 {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// The default limits of a skill: the playbook's sandbox (MM-ABI 1.0 §4), and as
// much output as its memory limit.
const (
	DefaultMemory  = 64 << 20
	DefaultTimeout = 300 // ms
	DefaultOutput  = 64 << 10
	DefaultCPU     = 1000 // thousandths of a core
)

// Filled returns the limits with defaults for missing values.
func (e Effective) Filled() Effective {
	return Effective{
		MilliCPU: cmp.Or(e.MilliCPU, DefaultCPU), MemBytes: cmp.Or(e.MemBytes, DefaultMemory),
		TimeoutMS: cmp.Or(e.TimeoutMS, DefaultTimeout), OutputBytes: cmp.Or(e.OutputBytes, DefaultOutput),
	}
}

// String formats the limits: "1 cpu, 64 MiB, 300 ms".
func (e Effective) String() string {
	var parts []string
	if e.MilliCPU > 0 {
		parts = append(parts, fmt.Sprintf("%g cpu", float64(e.MilliCPU)/1000))
	}
	if e.MemBytes > 0 {
		parts = append(parts, fmt.Sprintf("%g MiB", float64(e.MemBytes)/(1<<20)))
	}
	if e.TimeoutMS > 0 {
		parts = append(parts, fmt.Sprintf("%d ms", e.TimeoutMS))
	}
	if e.OutputBytes > 0 {
		parts = append(parts, fmt.Sprintf("%d bytes of output", e.OutputBytes))
	}
	if parts == nil {
		return "no limit"
	}
	return strings.Join(parts, ", ")
}

package evidence

import (
	"fmt"
	"math"
	"strings"
)

// MinCosine is the minimum cosine that passes.
const MinCosine = 0.99

// Verdict is the result of one criterion.
type Verdict struct {
	Name    string  `json:"name"`
	Outcome Outcome `json:"outcome"`
	Reason  string  `json:"reason"`
}

// The criteria, in order; those of the checks follow.
const (
	OnDevice  = "on-device"
	Sealed    = "sealed"
	Chip      = "chip"
	Arch      = "arch"
	Versions  = "versions"
	Files     = "files"
	Varied    = "varied"
	Compared  = "compared"
	HVX       = "hvx"
	Precision = "fp16-grid"
	Timing    = "timing"
)

// Promotes reports whether the record proves that the NPU of a chip computed the binary
// correctly, and returns the name of the chip, on which device, runtime and binary agree.
func Promotes(r Record) (soc string, ok bool) {
	for _, v := range Judge(r) {
		if v.Outcome != Pass && v.Outcome != Exempt {
			return "", false
		}
	}
	return r.Binary.SoC.Name, true
}

// Judge returns a verdict for each criterion.
func Judge(r Record) []Verdict {
	var out []Verdict
	add := func(name string, o Outcome, format string, args ...any) {
		out = append(out, Verdict{name, o, fmt.Sprintf(format, args...)})
	}
	verdict := func(name string, good bool, reason, otherwise string) {
		if good {
			add(name, Pass, "%s", reason)
		} else {
			add(name, Fail, "%s", otherwise)
		}
	}
	signs := simulation(r)
	verdict(OnDevice, len(signs) == 0, "not simulated", "simulated: "+strings.Join(signs, "; "))
	digest, err := r.digest()
	verdict(Sealed, err == nil && r.Schema == Schema && r.Digest == digest, "digest matches", "digest mismatch or unknown schema")
	out = append(out, chip(r), arch(r), versions(r))
	fault := files(r)
	verdict(Files, fault == "", fmt.Sprintf("%d inputs, %d outputs, each with a SHA-256", len(r.Inputs), len(r.Outputs)), fault)
	fault = varied(r)
	verdict(Varied, fault == "", fmt.Sprintf("%d samples differ", r.Samples), fault)
	fault = compared(r)
	verdict(Compared, fault == "", "with "+engineOf(r), fault)
	out = append(out, hvx(r), grid(r), timing(r))
	return append(out, checks(r)...)
}

// simulation returns the signs of a simulation, recorded or in the contents.
func simulation(r Record) []string {
	signs := append([]string{}, r.Signs...)
	if r.Simulated {
		signs = append(signs, "marked as simulated")
	}
	if r.Runtime.GoArch != "arm64" {
		signs = append(signs, fmt.Sprintf("runner built for %q, want arm64", r.Runtime.GoArch))
	}
	if m := r.Device.Machine; m != "aarch64" && m != "armv8l" {
		signs = append(signs, fmt.Sprintf("kernel architecture %q", m))
	}
	if r.SoC.Model == emulatedSoC && r.SoC.Arch == emulatedArch && (r.HVXThreads == nil || *r.HVXThreads == 0) {
		signs = append(signs, "platform 30/v68 without an HVX thread is that of QNN's emulation")
	}
	for _, build := range []string{r.Runtime.Build, r.Binary.Build} {
		if strings.Contains(strings.ToLower(build), "sim") {
			signs = append(signs, fmt.Sprintf("build %q", build))
		}
	}
	if r.Source.Lane != "adb" && r.Source.Lane != "ssh" {
		signs = append(signs, fmt.Sprintf("lane %q is not a device connection", r.Source.Lane))
	}
	return signs
}

func chip(r Record) Verdict {
	values := fmt.Sprintf("device %q, platform %q (%d), binary %q (%d)", r.Device.SoC, r.SoC.Name, r.SoC.Model, r.Binary.SoC.Name, r.Binary.SoC.Model)
	switch {
	case r.Device.SoC == "" || r.SoC.Name == "" || r.SoC.Model == 0 || r.Binary.SoC.Name == "" || r.Binary.SoC.Model == 0:
		return Verdict{Chip, Unknown, "chips not known: " + values}
	case r.SoC.Model != r.Binary.SoC.Model || !strings.EqualFold(r.SoC.Name, r.Binary.SoC.Name) || !strings.EqualFold(r.Device.SoC, r.Binary.SoC.Name):
		return Verdict{Chip, Fail, "chips differ: " + values}
	}
	return Verdict{Chip, Pass, values}
}

func arch(r Record) Verdict {
	values := fmt.Sprintf("platform v%d, binary v%d", r.SoC.Arch, r.Binary.SoC.Arch)
	switch {
	case r.SoC.Arch == 0 || r.Binary.SoC.Arch == 0:
		return Verdict{Arch, Unknown, "architectures not known: " + values}
	case r.SoC.Arch != r.Binary.SoC.Arch:
		return Verdict{Arch, Fail, "architectures differ: " + values}
	}
	return Verdict{Arch, Pass, values}
}

func versions(r Record) Verdict {
	values := fmt.Sprintf("runtime %q, binary %q, runner %q", r.Runtime.Build, r.Binary.Build, r.Runtime.Runner)
	if r.Runtime.Build == "" || r.Binary.Build == "" || !isDigest(r.Runtime.Runner) || r.Source.Tool == "" || r.Time == "" || r.Nonce == "" {
		return Verdict{Versions, Unknown, "not named: " + values}
	}
	return Verdict{Versions, Pass, values}
}

// files returns the fault of the list of files, if any.
func files(r Record) string {
	if !isDigest(r.Binary.SHA256) || r.Binary.Bytes <= 0 {
		return "the binary has no digest or size"
	}
	if len(r.Inputs) == 0 || len(r.Outputs) == 0 || r.Samples < 1 {
		return "no inputs or no outputs"
	}
	for _, list := range [][]Tensor{r.Inputs, r.Outputs} {
		names, seen := map[string]bool{}, map[[2]any]bool{}
		for _, t := range list {
			if !isDigest(t.SHA256) || t.Bytes <= 0 || t.Name == "" || t.DType == "" || t.Sample < 0 || t.Sample >= r.Samples {
				return fmt.Sprintf("tensor %q of sample %d not described", t.Name, t.Sample)
			}
			names[t.Name], seen[[2]any{t.Name, t.Sample}] = true, true
		}
		if len(seen) != len(list) || len(list) != len(names)*r.Samples {
			return fmt.Sprintf("%d tensors, want %d names × %d samples", len(list), len(names), r.Samples)
		}
	}
	return ""
}

// varied returns why the samples do not prove that outputs depend on inputs, if so.
func varied(r Record) string {
	if !r.Drawn {
		return "inputs or nonce were chosen: outputs may have been prepared"
	}
	if r.Samples < 2 {
		return "one sample does not prove that outputs depend on inputs"
	}
	in, out := bySample(r.Inputs), bySample(r.Outputs)
	from := map[string]int{}
	for s := range r.Samples {
		if other, again := from[in[s]]; again {
			return fmt.Sprintf("samples %d and %d have the same inputs", other, s)
		}
		from[in[s]] = s
	}
	seen := map[string]int{}
	for s := range r.Samples {
		if other, again := seen[out[s]]; again {
			return fmt.Sprintf("samples %d and %d have the same outputs", other, s)
		}
		seen[out[s]] = s
	}
	return ""
}

// bySample joins the digests of each sample's tensors.
func bySample(list []Tensor) map[int]string {
	out := map[int]string{}
	for _, t := range list {
		out[t.Sample] += t.Name + "=" + t.SHA256 + ";"
	}
	return out
}

func engineOf(r Record) string {
	if r.Reference == nil {
		return ""
	}
	return r.Reference.Engine
}

// compared returns why the comparison with the reference proves nothing, if so.
func compared(r Record) string {
	ref := r.Reference
	switch {
	case ref == nil || ref.Engine == "" || !isDigest(ref.Model):
		return "no reference, or unknown engine or model"
	case r.Cosine == nil || math.IsNaN(*r.Cosine):
		return "no cosine"
	case *r.Cosine < MinCosine || *r.Cosine > 1+1e-9:
		return fmt.Sprintf("cosine %.6f, want at least %.2f", *r.Cosine, MinCosine)
	case ref.Model == r.Binary.SHA256:
		return "the reference was computed from the binary itself"
	case len(ref.Outputs) != len(r.Outputs):
		return fmt.Sprintf("%d outputs compared with %d", len(r.Outputs), len(ref.Outputs))
	}
	for i, t := range r.Outputs {
		o := ref.Outputs[i]
		if o.Name != t.Name || o.Sample != t.Sample || !isDigest(o.SHA256) {
			return fmt.Sprintf("output %q of sample %d compared with %q of %d", t.Name, t.Sample, o.Name, o.Sample)
		}
		if o.SHA256 == t.SHA256 && strings.HasPrefix(strings.ToLower(t.DType), "float32") {
			return fmt.Sprintf("output %q is bit-exact to the reference, which an NPU is not: it may be a copy", t.Name)
		}
	}
	return ""
}

func hvx(r Record) Verdict {
	switch {
	case r.HVXThreads == nil:
		return Verdict{HVX, Unknown, "HVX threads not counted"}
	case *r.HVXThreads <= 0:
		return Verdict{HVX, Fail, "no HVX thread used: emulation or CPU"}
	}
	return Verdict{HVX, Pass, fmt.Sprintf("%d HVX threads", *r.HVXThreads)}
}

func grid(r Record) Verdict {
	floats := false
	for _, t := range r.Outputs {
		floats = floats || strings.HasPrefix(strings.ToLower(t.DType), "float")
	}
	g := r.FP16Grid
	switch {
	case len(r.Outputs) > 0 && !floats:
		return Verdict{Precision, Exempt, "no float output"}
	case g == nil || !g.Applies || g.Values <= 0:
		return Verdict{Precision, Unknown, "no float output checked"}
	case g.Off != 0 || g.MaxULP != 0:
		return Verdict{Precision, Fail, fmt.Sprintf("%d of %d values are not 16-bit floats (by up to %d units): emulation or CPU", g.Off, g.Values, g.MaxULP)}
	}
	return Verdict{Precision, Pass, fmt.Sprintf("all %d values are 16-bit floats", g.Values)}
}

func timing(r Record) Verdict {
	t := r.Times
	switch {
	case t == nil:
		return Verdict{Timing, Unknown, "not measured"}
	case t.Infer <= 0 || t.Load <= 0 || t.Inferences < r.Samples:
		return Verdict{Timing, Fail, fmt.Sprintf("loading %d µs, inference %d µs, %d inferences: not measured separately", t.Load, t.Infer, t.Inferences)}
	}
	return Verdict{Timing, Pass, fmt.Sprintf("inference %d µs of %d, loading %d µs", t.Infer, t.Inferences, t.Load)}
}

// checks returns verdicts for the checks that a record must have.
func checks(r Record) []Verdict {
	var out []Verdict
	for _, name := range Checks() {
		v := Verdict{"check " + name, Unknown, "missing"}
		for _, c := range r.Checks {
			if c.Name != name {
				continue
			}
			if c.Outcome == Pass && v.Outcome == Unknown {
				v.Outcome, v.Reason = Pass, c.Detail
			} else if c.Outcome != Pass {
				v.Outcome, v.Reason = Fail, fmt.Sprintf("%s: %s", c.Outcome, c.Detail)
			}
		}
		out = append(out, v)
	}
	return out
}

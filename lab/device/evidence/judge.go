package evidence

import (
	"fmt"
	"math"
	"strings"
)

// MinCosine is the least cosine that passes.
const MinCosine = 0.99

// Verdict is what one thing comes to, and why.
type Verdict struct {
	Name    string  `json:"name"`
	Outcome Outcome `json:"outcome"`
	Reason  string  `json:"reason"`
}

// The names of what is judged, in order; the checks of the results follow.
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

// Promotes reports whether the record shows that the chip's NPU computed the
// binary rightly, and for which chip: the name that the device, the runtime and
// the binary agree on.
func Promotes(r Record) (soc string, ok bool) {
	for _, v := range Judge(r) {
		if v.Outcome != Pass && v.Outcome != Exempt {
			return "", false
		}
	}
	return r.Binary.SoC.Name, true
}

// Judge gives a verdict on everything that must hold of a record.
func Judge(r Record) []Verdict {
	var out []Verdict
	add := func(name string, o Outcome, format string, args ...any) {
		out = append(out, Verdict{name, o, fmt.Sprintf(format, args...)})
	}
	verdict := func(name string, good bool, why, otherwise string) {
		if good {
			add(name, Pass, "%s", why)
		} else {
			add(name, Fail, "%s", otherwise)
		}
	}
	signs := simulation(r)
	verdict(OnDevice, len(signs) == 0, "nothing of it was simulated", "simulated: "+strings.Join(signs, "; "))
	digest, err := r.digest()
	verdict(Sealed, err == nil && r.Schema == Schema && r.Digest == digest, "the digest is the record's", "the digest is not the record's, or the schema is not known")
	out = append(out, chip(r), arch(r), versions(r))
	why := files(r)
	verdict(Files, why == "", fmt.Sprintf("%d inputs, %d outputs, each with its SHA-256", len(r.Inputs), len(r.Outputs)), why)
	why = varied(r)
	verdict(Varied, why == "", fmt.Sprintf("%d samples differ", r.Samples), why)
	why = compared(r)
	verdict(Compared, why == "", "with "+engineOf(r), why)
	out = append(out, hvx(r), grid(r), timing(r))
	return append(out, checks(r)...)
}

// simulation lists the signs that something was simulated: those that the
// record names, and those in what it holds.
func simulation(r Record) []string {
	signs := append([]string{}, r.Signs...)
	if r.Simulated {
		signs = append(signs, "the record says so")
	}
	if r.Runtime.GoArch != "arm64" {
		signs = append(signs, fmt.Sprintf("the runner was built for %q, a phone's is arm64", r.Runtime.GoArch))
	}
	if m := r.Device.Machine; m != "aarch64" && m != "armv8l" {
		signs = append(signs, fmt.Sprintf("the device's kernel is of %q", m))
	}
	if r.SoC.Model == emulatedSoC && r.SoC.Arch == emulatedArch && (r.HVXThreads == nil || *r.HVXThreads == 0) {
		signs = append(signs, "platform 30/v68 without an HVX thread is what QNN's emulation says of itself")
	}
	for _, build := range []string{r.Runtime.Build, r.Binary.Build} {
		if strings.Contains(strings.ToLower(build), "sim") {
			signs = append(signs, fmt.Sprintf("the build %q", build))
		}
	}
	if r.Source.Lane != "adb" && r.Source.Lane != "ssh" {
		signs = append(signs, fmt.Sprintf("the lane %q leads to no device", r.Source.Lane))
	}
	return signs
}

func chip(r Record) Verdict {
	said := fmt.Sprintf("device %q, platform %q (%d), binary %q (%d)", r.Device.SoC, r.SoC.Name, r.SoC.Model, r.Binary.SoC.Name, r.Binary.SoC.Model)
	switch {
	case r.Device.SoC == "" || r.SoC.Name == "" || r.SoC.Model == 0 || r.Binary.SoC.Name == "" || r.Binary.SoC.Model == 0:
		return Verdict{Chip, Unknown, "not all of them say which chip: " + said}
	case r.SoC.Model != r.Binary.SoC.Model || !strings.EqualFold(r.SoC.Name, r.Binary.SoC.Name) || !strings.EqualFold(r.Device.SoC, r.Binary.SoC.Name):
		return Verdict{Chip, Fail, "they differ: " + said}
	}
	return Verdict{Chip, Pass, said}
}

func arch(r Record) Verdict {
	said := fmt.Sprintf("platform v%d, binary v%d", r.SoC.Arch, r.Binary.SoC.Arch)
	switch {
	case r.SoC.Arch == 0 || r.Binary.SoC.Arch == 0:
		return Verdict{Arch, Unknown, "not both say one: " + said}
	case r.SoC.Arch != r.Binary.SoC.Arch:
		return Verdict{Arch, Fail, "they differ: " + said}
	}
	return Verdict{Arch, Pass, said}
}

func versions(r Record) Verdict {
	said := fmt.Sprintf("runtime %q, binary %q, runner %q", r.Runtime.Build, r.Binary.Build, r.Runtime.Runner)
	if r.Runtime.Build == "" || r.Binary.Build == "" || !isDigest(r.Runtime.Runner) || r.Source.Tool == "" || r.Time == "" || r.Nonce == "" {
		return Verdict{Versions, Unknown, "something that ran is not named: " + said}
	}
	return Verdict{Versions, Pass, said}
}

// files says what is wrong with the list of files, "" where nothing is.
func files(r Record) string {
	if !isDigest(r.Binary.SHA256) || r.Binary.Bytes <= 0 {
		return "the binary has no digest or no size"
	}
	if len(r.Inputs) == 0 || len(r.Outputs) == 0 || r.Samples < 1 {
		return "there are no inputs or no outputs"
	}
	for _, list := range [][]Tensor{r.Inputs, r.Outputs} {
		names, met := map[string]bool{}, map[[2]any]bool{}
		for _, t := range list {
			if !isDigest(t.SHA256) || t.Bytes <= 0 || t.Name == "" || t.DType == "" || t.Sample < 0 || t.Sample >= r.Samples {
				return fmt.Sprintf("the tensor %q of sample %d is not described", t.Name, t.Sample)
			}
			names[t.Name], met[[2]any{t.Name, t.Sample}] = true, true
		}
		if len(met) != len(list) || len(list) != len(names)*r.Samples {
			return fmt.Sprintf("%d tensors are not %d names of %d samples", len(list), len(names), r.Samples)
		}
	}
	return ""
}

// varied says why the samples do not show that outputs follow inputs.
func varied(r Record) string {
	if !r.Drawn {
		return "the inputs were chosen, or the nonce that they were drawn from: outputs may have been kept for them"
	}
	if r.Samples < 2 {
		return "one sample does not show that the outputs follow the inputs"
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

// bySample puts the digests of each sample's tensors together.
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

// compared says why the comparison with the reference shows nothing.
func compared(r Record) string {
	ref := r.Reference
	switch {
	case ref == nil || ref.Engine == "" || !isDigest(ref.Model):
		return "there is no reference, or nobody says what computed it from what"
	case r.Cosine == nil || math.IsNaN(*r.Cosine):
		return "there is no cosine"
	case *r.Cosine < MinCosine || *r.Cosine > 1+1e-9:
		return fmt.Sprintf("the cosine is %.6f, at least %.2f passes", *r.Cosine, MinCosine)
	case ref.Model == r.Binary.SHA256:
		return "the reference was computed from the binary itself"
	case len(ref.Outputs) != len(r.Outputs):
		return fmt.Sprintf("%d outputs were compared with %d", len(r.Outputs), len(ref.Outputs))
	}
	for i, t := range r.Outputs {
		o := ref.Outputs[i]
		if o.Name != t.Name || o.Sample != t.Sample || !isDigest(o.SHA256) {
			return fmt.Sprintf("output %q of sample %d was compared with %q of %d", t.Name, t.Sample, o.Name, o.Sample)
		}
		if o.SHA256 == t.SHA256 && strings.HasPrefix(strings.ToLower(t.DType), "float32") {
			return fmt.Sprintf("output %q is the reference bit for bit, which no NPU gives: it may be the reference itself", t.Name)
		}
	}
	return ""
}

func hvx(r Record) Verdict {
	switch {
	case r.HVXThreads == nil:
		return Verdict{HVX, Unknown, "nobody counted HVX threads"}
	case *r.HVXThreads <= 0:
		return Verdict{HVX, Fail, "no HVX thread was used: that is the emulation, or the processor"}
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
		return Verdict{Precision, Exempt, "no output is a float"}
	case g == nil || !g.Applies || g.Values <= 0:
		return Verdict{Precision, Unknown, "no float of the outputs was looked at"}
	case g.Off != 0 || g.MaxULP != 0:
		return Verdict{Precision, Fail, fmt.Sprintf("%d of %d values are no 16-bit floats (by up to %d units): that is the emulation, or the processor", g.Off, g.Values, g.MaxULP)}
	}
	return Verdict{Precision, Pass, fmt.Sprintf("all %d values are 16-bit floats", g.Values)}
}

func timing(r Record) Verdict {
	t := r.Times
	switch {
	case t == nil:
		return Verdict{Timing, Unknown, "nobody measured"}
	case t.Infer <= 0 || t.Load <= 0 || t.Inferences < r.Samples:
		return Verdict{Timing, Fail, fmt.Sprintf("loading %d µs, one inference %d µs, of %d: loading and inference are not told apart", t.Load, t.Infer, t.Inferences)}
	}
	return Verdict{Timing, Pass, fmt.Sprintf("one inference %d µs of %d, loading %d µs beside", t.Infer, t.Inferences, t.Load)}
}

// checks holds the checks of the results to the list of those that must be.
func checks(r Record) []Verdict {
	var out []Verdict
	for _, name := range Checks() {
		v := Verdict{"check " + name, Unknown, "it was not made"}
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

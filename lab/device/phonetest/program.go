package phonetest

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"path"
	"slices"
	"strings"

	"mm-abi.org/mm/core/tensor"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/lab/device"
	"mm-abi.org/mm/lab/device/protocol"
	"mm-abi.org/mm/onnx/htp"
)

// Program is the content of a file that the phone executes as the runner.
const Program = "#!mm-device (emulated)\n"

// program runs a pushed file.
func (s *session) program(ctx context.Context, args []string, env map[string]string) int {
	local := s.p.local(s.dir, args[0])
	data, err := s.p.ReadFile(path.Join("/", local))
	s.p.mu.Lock()
	may := s.p.exec[local]
	s.p.mu.Unlock()
	switch {
	case err != nil:
		fmt.Fprintf(s.stderr, "sh: %s: inaccessible or not found\n", args[0])
		return 127
	case !may || s.p.broken(NotRunnable):
		fmt.Fprintf(s.stderr, "sh: %s: can't execute: Permission denied\n", args[0])
		return 126
	case string(data) != Program && s.p.Exec == nil:
		fmt.Fprintf(s.stderr, "sh: %s: not executable: 64-bit ELF file\n", args[0])
		return 126
	}
	call, err := protocol.ParseCall(args)
	if err != nil {
		fmt.Fprintln(s.stderr, "mm-device:", err)
		return 2
	}
	if s.p.Exec != nil {
		return s.outside(ctx, call)
	}
	return (&run{session: s, call: call, env: env}).do(ctx)
}

// run is a run of the runner.
type run struct {
	*session
	call protocol.Call
	env  map[string]string
	res  protocol.Result
}

// do acts as the runner, including faults.
func (r *run) do(ctx context.Context) int {
	p := r.p
	p.mu.Lock()
	p.runs++
	p.mu.Unlock()
	hvx := 4
	r.res = protocol.Result{Schema: protocol.Schema, Nonce: r.call.Nonce, Simulated: !p.Pretend, GoArch: "arm64", Version: "emulated", Build: p.Build,
		Platform: protocol.Platform{SoC: p.SoC, Arch: p.Arch}, HVXThreads: &hvx, Outputs: []protocol.Output{}, Times: protocol.Times{Load: 90000, Infer: []int64{}}}
	switch {
	case p.broken(Hang):
		<-ctx.Done()
		return 137
	case p.broken(Crash):
		fmt.Fprintln(r.stderr, "Segmentation fault")
		return 139
	case p.broken(Babble):
		fmt.Fprintln(r.stdout, "====== DDR bandwidth summary ======")
		return 0
	case p.broken(StaleNonce):
		r.res.Nonce = strings.Repeat("0", len(r.call.Nonce))
	}
	if code, stage, msg := r.compute(ctx); stage != "" {
		r.res.Error = &protocol.Error{Code: code, Stage: stage, Message: msg}
	}
	text, err := json.Marshal(r.res)
	if err != nil {
		fmt.Fprintln(r.stderr, err)
		return 3
	}
	r.stdout.Write(append(text, '\n'))
	if r.res.Error != nil {
		return 1
	}
	return 0
}

// compute runs all samples. A stage other than "" is an error.
func (r *run) compute(ctx context.Context) (code int64, stage, msg string) {
	data, err := r.p.ReadFile(path.Join("/", r.p.local(r.dir, r.call.Context)))
	if err != nil {
		return 0, protocol.StageContext, err.Error()
	}
	c, err := htp.ReadContext(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		return 30010, protocol.StageContext, err.Error()
	}
	if code, stage, msg := r.libraries(c); stage != "" {
		return code, stage, msg
	}
	r.res.Graph = c.Graphs[0].Name
	model, err := compile(ctx, data[c.BlobOffset:])
	if err != nil {
		return 5000, protocol.StageContext, err.Error()
	}
	defer model.Close()
	all := map[string][]byte{}
	for sample := 0; ; sample++ {
		in, err := r.inputs(c.Graphs[0], sample)
		if err != nil && sample > 0 {
			break
		}
		if err != nil {
			return 0, protocol.StageInputs, err.Error()
		}
		out, err := model.Run(ctx, in)
		if err != nil || r.p.broken(Execute) {
			return 6001, protocol.StageExecute, fmt.Sprint("graph execute: ", err)
		}
		for range r.call.Repeat {
			r.res.Times.Infer = append(r.res.Times.Infer, 700+int64(sample))
		}
		for i, t := range c.Graphs[0].Outputs {
			r.emit(all, sample, i, t.Name, out[i])
		}
	}
	return r.store(all)
}

// libraries returns the errors of the libraries before a context is loaded.
func (r *run) libraries(c *htp.Context) (int64, string, string) {
	p := r.p
	skel := fmt.Sprintf("libQnnHtpV%dSkel.so", p.Arch)
	_, err := p.stat(p.local(r.dir, path.Join(r.call.Libs, skel)))
	switch {
	case r.call.Libs == "" || err != nil || p.broken(NoSkel):
		return 1002, protocol.StageLibraries, "dlopen failed: " + skel + ": cannot open shared object file"
	case p.broken(Mismatch):
		return 1008, protocol.StageLibraries, "Incompatible library versions"
	case p.broken(OutOfMemory):
		return 1002, protocol.StageContext, "Failed to allocate memory for the context"
	case p.broken(Refused), c.Arch != htp.Arch(p.Arch) && !p.broken(LyingName):
		return 5000, protocol.StageContext, "Failed to create context from binary"
	case len(c.Graphs) != 1:
		return 1004, protocol.StageContext, "--graph is needed"
	}
	return 0, "", ""
}

// compile opens the model in a blob: its length and ONNX.
func compile(ctx context.Context, blob []byte) (*device.SampleReference, error) {
	if len(blob) < 8 || binary.LittleEndian.Uint64(blob) > uint64(len(blob)-8) {
		return nil, fmt.Errorf("blob without model")
	}
	dir, err := fsx.MkdirTemp("phone-")
	if err != nil {
		return nil, err
	}
	defer fsx.RemoveAll(dir)
	file := path.Join(dir, "m.onnx")
	if err := fsx.WriteFile(file, blob[8:8+binary.LittleEndian.Uint64(blob)], 0o600); err != nil {
		return nil, err
	}
	return device.OpenReference(ctx, file)
}

// Blob returns a blob that the emulated runner can compute: an ONNX model after its length,
// padded to size bytes.
func Blob(model []byte, size int) []byte {
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(model)))
	b = append(b, model...)
	for len(b) < size {
		b = append(b, byte(len(b)*31>>3))
	}
	return b
}

// inputs reads the inputs of a sample in the graph's order.
func (r *run) inputs(g htp.Graph, sample int) ([][]float32, error) {
	var out [][]float32
	for i, t := range g.Inputs {
		data, err := r.p.ReadFile(path.Join("/", r.p.local(r.dir, path.Join(r.call.Inputs, protocol.File(sample, i)))))
		if err != nil {
			return nil, err
		}
		if n, ok := t.Bytes(); !ok || int64(len(data)) != n || t.DType != htp.Float32 {
			return nil, fmt.Errorf("%s: %d bytes", t.Name, len(data))
		}
		out = append(out, device.SampleFloats(data))
	}
	return out, nil
}

// emit rounds an output to 16 bits, as an NPU does. Unless it pretends, it is then one unit
// off, as in the emulation on a PC.
func (r *run) emit(all map[string][]byte, sample, index int, name string, values []float32) {
	b := make([]byte, 4*len(values))
	for i, v := range values {
		switch p := r.p; {
		case p.broken(NaNOutput) && i == 1:
			v = float32(math.NaN())
		case p.broken(ZeroOutput):
			v = 0
		case p.broken(SameOutput):
			v = float32(i + 1)
		case p.broken(WrongOutput):
			v = float32(i%3) - v
		}
		bits := math.Float32bits(tensor.F16ToF32(tensor.F32ToF16(v)))
		if !r.p.Pretend && v != 0 && v == v {
			bits++
		}
		binary.LittleEndian.PutUint32(b[4*i:], bits)
	}
	if r.p.broken(ShortOutput) && sample == 0 {
		b = b[:len(b)-4]
	}
	r.res.Outputs = append(r.res.Outputs, protocol.Output{Sample: sample, Index: index, Name: name, Bytes: int64(len(b))})
	if !r.p.broken(MissingOutput) || sample > 0 {
		all[protocol.File(sample, index)] = b
	}
}

// store writes the outputs and keeps them for the faults of a later run.
func (r *run) store(all map[string][]byte) (int64, string, string) {
	p := r.p
	p.mu.Lock()
	old := p.last
	p.last = all
	p.mu.Unlock()
	if p.broken(StaleOutput) && old != nil {
		all = old
	}
	if p.broken(ExtraOutput) {
		all[protocol.File(0, 9)] = []byte("more")
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		at := path.Join(r.call.Outputs, name)
		if err := p.mkdir(p.local(r.dir, path.Dir(at))); err != nil {
			return 0, protocol.StageOutputs, reason(err)
		}
		if err := r.redirect(p.local(r.dir, at), all[name], false); err != nil {
			return 0, protocol.StageOutputs, reason(err)
		}
	}
	return 0, "", ""
}

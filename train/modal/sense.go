package modal

import (
	"context"
	"errors"
	"fmt"

	"mm-abi.org/mm/core/pool"
	"mm-abi.org/mm/core/preprocess"
	"mm-abi.org/mm/train"
	"mm-abi.org/mm/train/net"
)

// sense is the networks of a modality: preprocessing, an encoder, a projector.
type sense struct {
	modality Medium
	spec     preprocess.Spec
	enc      *part     // enc or onnx is set
	onnx     *external //
	proj     *part
	memory   *memory // of features, if the encoder is frozen
}

// Built describes the networks of a modality in a checkpoint, so that they can
// be rebuilt.
type Built struct {
	Modality   Medium          `json:"modality"`
	Preprocess preprocess.Spec `json:"preprocess"`
	Encoder    *net.Config     `json:"encoder,omitempty"`
	ONNX       string          `json:"onnx,omitempty"`   // SHA-256 of an external encoder
	Output     string          `json:"output,omitempty"` // of the ONNX file
	Projector  net.Config      `json:"projector"`
}

// maxFeatures bounds the cached numbers of frozen encoders: 1 GiB.
const maxFeatures = 256 << 20

// memory caches the features of a frozen encoder by example.
type memory struct {
	held map[int][]float32
	size int
}

func (m *memory) put(key int, x []float32) {
	if key < 0 || m.size+len(x) > maxFeatures {
		return
	}
	m.held[key], m.size = x, m.size+len(x)
}

// newSense creates the networks of one modality, allocates B items, and reads
// the weights of the recipe. dim is the core's d_model.
func newSense(ctx context.Context, m Modality, r Recipe, dir string, workers *pool.Pool, dim int, place string) (*sense, error) {
	s := &sense{modality: m.Modality, spec: m.Preprocess}
	if err := s.build(ctx, m, r, dir, workers, dim, place); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

// close closes an external encoder.
func (s *sense) close() error {
	if s.onnx == nil {
		return nil
	}
	return s.onnx.program.Close()
}

// build creates the networks, allocates their passes and checks that they fit.
// place is the modality's path in the recipe.
func (s *sense) build(ctx context.Context, m Modality, r Recipe, dir string, workers *pool.Pool, dim int, place string) error {
	var err error
	if m.Encoder.ONNX != "" {
		s.onnx, err = openExternal(ctx, train.Resolve(dir, m.Encoder.ONNX), m.Encoder, workers.Threads())
		if err != nil {
			return train.At(place+"/encoder/onnx", err)
		}
	} else if s.enc, err = s.network(EncoderPart, m.Encoder.Network, r.Seed, dir); err != nil {
		return train.At(place+"/encoder", err)
	}
	if s.proj, err = s.network(ProjectorPart, m.Projector, r.Seed+1, dir); err != nil {
		return train.At(place+"/projector", err)
	}
	s.arrange(workers, r)
	if err := s.check(); err != nil {
		return train.At(place, err)
	}
	if c := s.proj.cols(); c != dim {
		return train.Atf(place+"/projector", "vector size mismatch: projector %d, core %d", c, dim)
	}
	return nil
}

// network creates a part from a description or reads it from a checkpoint.
func (s *sense) network(kind string, n Network, seed uint64, dir string) (*part, error) {
	if n.Net != nil {
		p, err := newPart(kind, s.modality, *n.Net, seed)
		if err == nil && n.Begin != "" {
			err = begin(p.net, prefix(kind, s.modality), train.Resolve(dir, n.Begin))
		}
		return p, err
	}
	c, err := OpenCheckpoint(train.Resolve(dir, n.From))
	if err != nil {
		return nil, err
	}
	p, b, err := c.part(kind, s.modality)
	if err = errors.Join(err, c.Close()); err != nil {
		return nil, err
	}
	if kind == EncoderPart && isZero(s.spec) {
		s.spec = b.Preprocess
	}
	if err := b.checkEncoder(s.onnx); err != nil {
		return nil, fmt.Errorf("checkpoint %s: %w", n.From, err)
	}
	return p, nil
}

// isZero reports whether a preprocess block is empty.
func isZero(s preprocess.Spec) bool {
	return s.Layout == "" && s.DType == "" && s.Scale == 0 && s.Mean == nil && s.Std == nil && s.Resize == nil && s.Crop == nil &&
		s.ShortestEdge == 0 && s.Height == 0 && s.SampleRate == 0
}

// arrange allocates the networks' passes.
func (s *sense) arrange(workers *pool.Pool, r Recipe) {
	encodes, projects := s.enc != nil && r.Stage.trains(EncoderPart), r.Stage.trains(ProjectorPart)
	if s.enc != nil {
		s.enc.place(workers, r.BatchSize, encodes, false)
	}
	s.proj.place(workers, r.BatchSize, projects, encodes)
	if !encodes {
		s.memory = &memory{held: map[int][]float32{}}
	}
}

// check checks that preprocessing, encoder and projector fit, on a blank input.
func (s *sense) check() error {
	t, err := prepare(&s.spec, blank(s.modality))
	if err != nil {
		return fmt.Errorf("preprocess: %w", err)
	}
	if s.onnx != nil {
		if _, err := s.onnx.features(context.Background(), t); err != nil {
			return fmt.Errorf("encoder: %w", err)
		}
		return joins(s.onnx.rows, s.onnx.cols, s.proj)
	}
	if n, want := len(t.Data)/4, s.enc.wants(); n != want {
		return fmt.Errorf("%w: preprocess output has %d numbers, %v, encoder input %d", errShape, n, t.Shape, want)
	}
	return joins(s.enc.rows(), s.enc.cols(), s.proj)
}

// blank returns an empty input of the size of examples.
func blank(m Medium) Example {
	if m == Audio {
		return Example{Modality: m, Wave: &preprocess.Wave{Rate: 16000, Samples: make([]float32, 16000)}}
	}
	return Example{Modality: m, Raster: &preprocess.Raster{W: 128, H: 128, C: 3, Pix: make([]uint8, 3*128*128)}}
}

// item prepares an example for the encoder.
func (s *sense) item(e Example) (item, error) {
	t, err := prepare(&s.spec, e)
	if err != nil {
		return item{}, err
	}
	if s.onnx != nil {
		return item{tensor: t}, nil
	}
	return item{data: floats(t.Data)}, nil
}

// look runs the items through encoder and projector. The output is s.proj.out.
func (s *sense) look(ctx context.Context, items []item) error {
	if s.memory == nil {
		for i, it := range items {
			s.enc.give(i, it.data)
		}
		s.enc.pass.Forward(len(items))
		copyRows(s.proj.in, s.enc.out, len(items)*s.enc.rows())
	} else if err := s.recall(ctx, items); err != nil {
		return err
	}
	s.proj.pass.Forward(len(items))
	return nil
}

// recall sets the projector's inputs to a frozen encoder's features of the
// items, cached if possible.
func (s *sense) recall(ctx context.Context, items []item) error {
	var missing []int
	for i, it := range items {
		if x, ok := s.memory.held[it.key]; ok && it.key >= 0 {
			s.proj.give(i, x)
		} else if s.onnx != nil {
			x, err := s.onnx.features(ctx, it.tensor)
			if err != nil {
				return fmt.Errorf("encoding %s: %w", s.modality, err)
			}
			s.memory.put(it.key, x)
			s.proj.give(i, x)
		} else {
			s.enc.give(len(missing), it.data)
			missing = append(missing, i)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	s.enc.pass.Forward(len(missing))
	for n, i := range missing {
		x := s.enc.result(nil, n)
		s.memory.put(items[i].key, x)
		s.proj.give(i, x)
	}
	return nil
}

// cached reports whether the example's features are cached, so that it need not
// be prepared.
func (s *sense) cached(key int) bool {
	if s.memory == nil || key < 0 {
		return false
	}
	_, ok := s.memory.held[key]
	return ok
}

// back propagates the gradients of n items' vectors, [n·rows, cols] contiguous,
// through the networks that train.
func (s *sense) back(grads []float32, n int, add bool) {
	if !s.proj.trains {
		return
	}
	for i := range n {
		size := s.proj.rows() * s.proj.cols()
		fill(s.proj.dout, i, s.proj.B, grads[i*size:(i+1)*size])
	}
	s.proj.back(n, add)
	if s.enc != nil && s.enc.trains {
		copyRows(s.enc.dout, s.proj.din, n*s.enc.rows())
		s.enc.back(n, add)
	}
}

func (s *sense) refresh() {
	if s.enc != nil {
		s.enc.refresh()
	}
	s.proj.refresh()
}

// built returns the description of the networks for a checkpoint.
func (s *sense) built() Built {
	b := Built{Modality: s.modality, Preprocess: s.spec, Projector: s.proj.cfg}
	if s.enc != nil {
		b.Encoder = &s.enc.cfg
	} else {
		b.ONNX, b.Output = s.onnx.sum, s.onnx.output
	}
	return b
}

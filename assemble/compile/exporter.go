package compile

import (
	"context"
	"fmt"

	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/onnx/engine"
	"mm-abi.org/mm/onnx/engine/drift"
	"mm-abi.org/mm/runtimes/qnn"
)

// Exporter compiles exports of builds for NPUs: it is the Compiler of
// assemble/compile.
type Exporter struct{ Engine *qnn.Engine }

// SDK returns the build of the libraries.
func (x Exporter) SDK(ctx context.Context) (string, error) {
	p, err := x.Engine.Platform(ctx)
	return p.Build, err
}

// Precisions lists the precisions.
func (Exporter) Precisions() []string { return Precisions() }

// Compile compiles a model with golden inputs, or a language model with its own
// output.
func (x Exporter) Compile(ctx context.Context, job Job) ([]byte, error) {
	if job.Language {
		result, err := Language(ctx, x.Engine, LanguageOptions{Model: job.Model, Chip: job.Chip, Window: job.Window, Positions: job.Positions, Layers: job.Layers, MinCosine: least(job), Out: job.Out})
		if err != nil {
			return nil, err
		}
		return result.Record.JSON()
	}
	in := make(map[string]engine.Tensor, len(job.Golden))
	for name, path := range job.Golden {
		data, err := fsx.ReadFile(path, mostBytes)
		if err == nil {
			in[name], err = drift.Read(data)
		}
		if err != nil {
			return nil, fmt.Errorf("golden input %q: %w", name, err)
		}
	}
	inputs := []map[string]engine.Tensor{in}
	if len(job.More) > 0 {
		more, err := Samples(job.Model, job.More)
		if err != nil {
			return nil, fmt.Errorf("golden inputs: %w", err)
		}
		inputs = append(inputs, more...)
	}
	result, err := Compile(ctx, x.Engine, Options{
		Model: job.Model, Chip: job.Chip, Precision: Precision(job.Precision), Inputs: inputs, Keep: job.Keep, MinCosine: least(job), Out: job.Out,
	})
	if err != nil {
		return nil, err
	}
	return result.Record.JSON()
}

// least returns the minimum cosine of a job.
func least(job Job) float64 {
	switch {
	case job.MinCosine != nil:
		return *job.MinCosine
	case job.Language:
		return LanguageMinCosine
	}
	return Precision(job.Precision).MinCosine()
}

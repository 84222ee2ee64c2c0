package track

import (
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"time"

	"mm-abi.org/mm/internal/fsx"
)

// Export formats a run for a program that is not connected: the bytes of a file below a
// folder. The same folder of a run has the same file; a longer run replaces it.
type Export func(r *Run, version string) (name string, write func(io.Writer) error)

// Exports returns the formats by name.
func Exports() map[string]Export {
	return map[string]Export{"openlineage": openLineage, "wandb": weightsAndBiases}
}

// Exported is a file that was written.
type Exported struct {
	Run    string `json:"run"`
	Format string `json:"format"`
	File   string `json:"file"`
}

// WriteExport writes a run in a format to a folder.
func WriteExport(r *Run, format, dir, version string) (Exported, error) {
	export := Exports()[format]
	if export == nil {
		return Exported{}, fmt.Errorf("format %q: want openlineage or wandb", format)
	}
	name, write := export(r, version)
	d, err := fsx.Create(filepath.Join(dir, filepath.Dir(name)), 0o755, fsx.Options{})
	if err != nil {
		return Exported{}, err
	}
	defer d.Close()
	file := filepath.Join(dir, name)
	return Exported{r.ID, format, file}, fsx.Replace(file, 0o644, write)
}

// row is the figures of a run at a step.
type row struct {
	step    int64
	time    int64 // milliseconds since 1970
	metrics []Metric
}

// rows returns the figures of a run by step.
func (r *Run) rows() (all []row) {
	sorted := slices.Clone(r.Metrics)
	slices.SortStableFunc(sorted, func(a, b Metric) int { return int(min(max(a.Step-b.Step, -1), 1)) })
	for _, m := range sorted {
		if n := len(all); n == 0 || all[n-1].step != m.Step {
			all = append(all, row{step: m.Step})
		}
		last := &all[len(all)-1]
		last.metrics, last.time = append(last.metrics, m), max(last.time, m.Time)
	}
	return all
}

// The addresses in events of OpenLineage.
const (
	lineageProducer = "https://mm-abi.org"
	lineageEvent    = "https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs/RunEvent"
	lineageVersion  = "https://openlineage.io/spec/facets/1-0-1/DatasetVersionDatasetFacet.json#/$defs/DatasetVersionDatasetFacet"
	lineageSpace    = "mm"
)

// openLineage writes the begin and, if there is one, the end of a run as lines of JSON.
func openLineage(r *Run, _ string) (string, func(io.Writer) error) {
	return r.ID + ".openlineage.jsonl", func(w io.Writer) error {
		e := json.NewEncoder(w)
		e.SetEscapeHTML(false)
		if err := e.Encode(r.lineageEvent("START", r.Begin)); err != nil || r.Ended == "" {
			return err
		}
		end := "COMPLETE"
		if status(r.Ended) == "KILLED" {
			end = "ABORT"
		}
		return e.Encode(r.lineageEvent(end, r.End))
	}
}

// lineageEvent returns an event of a run. Its data sets have the digests of their lineage as
// versions.
func (r *Run) lineageEvent(kind string, at int64) map[string]any {
	inputs := []any{}
	for _, l := range r.Lineage {
		version := map[string]any{"_producer": lineageProducer, "_schemaURL": lineageVersion, "datasetVersion": l.Digest}
		name := l.Name
		if name == "" {
			name = "data"
		}
		inputs = append(inputs, map[string]any{"namespace": lineageSpace, "name": name, "facets": map[string]any{"version": version}})
	}
	return map[string]any{
		"eventType": kind, "eventTime": time.UnixMilli(at).UTC().Format("2006-01-02T15:04:05.000Z"), "producer": lineageProducer, "schemaURL": lineageEvent,
		"run":    map[string]any{"runId": r.ID[:8] + "-" + r.ID[8:12] + "-" + r.ID[12:16] + "-" + r.ID[16:20] + "-" + r.ID[20:], "facets": map[string]any{}},
		"job":    map[string]any{"namespace": lineageSpace, "name": r.Name, "facets": map[string]any{}},
		"inputs": inputs, "outputs": []any{},
	}
}

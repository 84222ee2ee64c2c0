package train

import (
	"mm-abi.org/mm/train/dataset"

	"fmt"
	"math"
)

// Report is a measurement as mm eval lm prints it.
type Report struct {
	Model   *ModelReport       `json:"model,omitempty"`
	NGram   *dataset.Baselines `json:"ngram,omitempty"`
	Samples []string           `json:"samples,omitempty"`
}

// ModelReport is the loss of a model with its perplexity.
type ModelReport struct {
	Evaluation
	Perplexity float64   `json:"perplexity"` // e^loss
	Adapters   *Recovery `json:"adapters,omitempty"`
}

// Report returns the measurement with the perplexity.
func (m Measured) Report() Report {
	return Report{&ModelReport{m.Evaluation, math.Exp(m.Loss), m.Adapters}, m.NGram, m.Samples}
}

// ReportHeading names the columns of Report.Rows.
func ReportHeading() []string {
	return []string{"HELD OUT", "NATS A TOKEN", "BITS A BYTE", "PREDICTIONS", "PERPLEXITY"}
}

// Rows returns a row for each baseline, for the model and for the change by its adapters.
func (r Report) Rows() (rows [][]string) {
	if r.NGram != nil {
		for _, b := range []struct {
			name string
			loss float64
		}{{"uniform", r.NGram.Uniform}, {"unigram", r.NGram.Unigram}, {"bigram", r.NGram.Bigram}, {"trigram", r.NGram.Trigram}} {
			rows = append(rows, []string{b.name, fmt.Sprintf("%.4f", b.loss), "", fmt.Sprint(r.NGram.Predictions), fmt.Sprintf("%.4f", math.Exp(b.loss))})
		}
	}
	if r.Model != nil {
		rows = append(rows, []string{"model", fmt.Sprintf("%.4f", r.Model.Loss), fmt.Sprintf("%.4f", r.Model.BitsPerByte), fmt.Sprint(r.Model.Predictions), fmt.Sprintf("%.4f", r.Model.Perplexity)})
		if a := r.Model.Adapters; a != nil {
			rows = append(rows, []string{"without adapters", "", fmt.Sprintf("%.4f", a.Before), "", ""},
				[]string{"change, 95 %", "", fmt.Sprintf("%+.4f (%+.4f to %+.4f)", a.After-a.Before, a.Low, a.High), "", ""})
		}
	}
	return rows
}

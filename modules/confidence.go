package modules

import (
	"math"
	"slices"

	"mm-abi.org/mm/abi"
)

// Confidence describes how probably the core's answers about an input of a projector are
// right (MM-ABI 1.2): the logistic function of the likelihood of the answer and of the
// distance of the input from those that the parts were trained on.
type Confidence struct {
	// With is the core and its adapters, NAME@VERSION; answers of others have none.
	With []string `json:"with"`
	// Domain is an .npz file: mean [C] and factor [C, C] of the core's mean state at the
	// positions of an input. The distance of a state x is the mean square of factor·(x − mean).
	Domain string `json:"domain"`
	// Weights of the terms of [Confidence.Probability]. Those of the distance are at most 0,
	// so that a less familiar input never raises it.
	Bias       float64 `json:"bias"`
	Likelihood float64 `json:"likelihood"`
	Distance   float64 `json:"distance"`
	Beyond     float64 `json:"beyond"`
	Edge       float64 `json:"edge"`
	// Least is the probability below which an answer is withheld.
	Least  float64 `json:"least"`
	Fitted string  `json:"fitted"` // the data of the fit
}

// surest bounds the odds of a likelihood.
const surest = 1e-6

// Probability returns how probably an answer is right. likelihood is the logarithm of its
// probability in the core.
func (c *Confidence) Probability(likelihood, distance float64) float64 {
	l := min(likelihood, -surest)
	odds, far := l-math.Log(-math.Expm1(l)), math.Log(distance)
	return 1 / (1 + math.Exp(-(c.Bias + c.Likelihood*odds + c.Distance*far + c.Beyond*max(0, far-c.Edge))))
}

// Holds reports whether the confidence was fitted with a core and its adapters.
func (c *Confidence) Holds(parts []string) bool {
	return slices.Equal(parts, c.With)
}

// ConfidenceOf returns the confidence of a modality's inputs; nil: none.
func (m *Manifest) ConfidenceOf(in abi.Modality) *Confidence {
	if m == nil || m.Modality != in {
		return nil
	}
	return m.Confidence
}

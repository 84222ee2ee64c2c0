package preference

import (
	"errors"
	"math"

	"mm-abi.org/mm/train"
)

// Kind is a loss on pairs of answers.
type Kind string

// The losses. A log ratio is that of the policy's probability of an answer to
// the reference's.
const (
	// DPO is -log σ(β·(chosen log ratio - rejected log ratio)) (Rafailov et
	// al., arXiv 2305.18290).
	DPO Kind = "dpo"
	// IPO is the squared distance of the difference of the log ratios per token
	// from 1/2β (Azar et al., arXiv 2310.12036).
	IPO Kind = "ipo"
	// ORPO is the loss of the chosen answer per token minus β·log σ of the log
	// odds ratio (Hong et al., arXiv 2403.07691). It has no reference.
	ORPO Kind = "orpo"
	// KTO values each answer by σ of its log ratio relative to the mean log
	// ratio of unrelated answers (Ethayarajh et al., arXiv 2402.01306).
	KTO Kind = "kto"
)

// kinds returns all losses.
func kinds() []Kind { return []Kind{DPO, IPO, ORPO, KTO} }

// Objective is a loss with its parameters.
type Objective struct {
	Kind Kind    `json:"kind,omitempty"` // dpo
	Beta float64 `json:"beta,omitempty"` // 0.1
	// Smoothing is the assumed share of pairs in the wrong order (DPO).
	Smoothing float64 `json:"smoothing,omitempty"`
	// SFT is the weight of the chosen answer's loss per token, which keeps its
	// probability from falling together with that of the rejected one (DPO, IPO,
	// KTO).
	SFT float64 `json:"sft,omitempty"`
}

// Limits of an objective.
const (
	maxBeta = 1000 // factor of the log ratios
	maxSFT  = 1000
)

func (o Objective) withDefaults() Objective {
	if o.Kind == "" {
		o.Kind = DPO
	}
	train.SetDefault(&o.Beta, 0.1)
	return o
}

func (o Objective) validate() error {
	var errs []error
	fault := func(key string, bad bool, format string, args ...any) {
		if bad {
			errs = append(errs, train.Atf("/objective"+key, format, args...))
		}
	}
	known := false
	for _, k := range kinds() {
		known = known || o.Kind == k
	}
	fault("/kind", !known, "unknown objective %q, want one of %v", o.Kind, kinds())
	fault("/beta", !(o.Beta > 0 && o.Beta <= maxBeta), "beta out of range: got %v, want 0 < beta <= %d", o.Beta, maxBeta)
	fault("/smoothing", !(o.Smoothing >= 0 && o.Smoothing < 0.5), "smoothing out of range: got %v, want 0 <= smoothing < 0.5", o.Smoothing)
	fault("/smoothing", o.Smoothing > 0 && o.Kind != DPO, "smoothing requires kind dpo, got %s", o.Kind)
	fault("/sft", !(o.SFT >= 0 && o.SFT <= maxSFT), "sft out of range: got %v, want 0 to %d", o.SFT, maxSFT)
	fault("/sft", o.SFT > 0 && o.Kind == ORPO, "sft requires a kind other than orpo, whose loss has that of the chosen answer")
	return errors.Join(errs...)
}

// Rows returns the number of answers of a pair: chosen, rejected and, for KTO,
// the chosen answer of another prompt.
func (o Objective) Rows() int {
	if o.Kind == KTO {
		return 3
	}
	return 2
}

// Referenced reports whether the loss compares with a reference.
func (o Objective) Referenced() bool { return o.Kind != ORPO }

// Answer is the loss of an answer, in nats, by the policy and by the reference,
// and its number of tokens.
type Answer struct {
	Nats, Reference float64
	Tokens          int
}

// ratio returns the log ratio.
func (a Answer) ratio() float64 { return a.Reference - a.Nats }

// perToken returns the log probability per token.
func (a Answer) perToken() float64 { return -a.Nats / float64(max(a.Tokens, 1)) }

// Loss returns the sum of the losses of a batch of pairs, [Objective.Rows]
// answers each, and stores the derivative with respect to each answer's Nats,
// times scale, in factors.
func (o Objective) Loss(answers []Answer, scale float64, factors []float64) float64 {
	n := o.Rows()
	baseline := 0.0
	if o.Kind == KTO {
		baseline = o.baseline(answers)
	}
	var sum float64
	for i := 0; i < len(answers); i += n {
		loss, chosen, rejected := o.pair(answers[i], answers[i+1], baseline)
		chosen += o.SFT / float64(max(answers[i].Tokens, 1))
		sum += loss - o.SFT*answers[i].perToken()
		factors[i], factors[i+1] = scale*chosen, scale*rejected
		clear(factors[i+2 : i+n])
	}
	return sum
}

// baseline returns KTO's estimate of the divergence from the reference, a
// constant in the gradient.
func (o Objective) baseline(answers []Answer) float64 {
	var sum float64
	for i := 2; i < len(answers); i += 3 {
		sum += answers[i].ratio()
	}
	return max(sum/float64(max(len(answers)/3, 1)), 0)
}

// pair returns the loss of a pair and its derivatives with respect to the nats
// of the chosen and the rejected answer.
func (o Objective) pair(c, r Answer, baseline float64) (loss, dc, dr float64) {
	switch o.Kind {
	case IPO:
		nc, nr := float64(max(c.Tokens, 1)), float64(max(r.Tokens, 1))
		d := c.ratio()/nc - r.ratio()/nr - 1/(2*o.Beta)
		return d * d, -2 * d / nc, 2 * d / nr
	case ORPO:
		return o.odds(c, r)
	case KTO:
		good, bad := sigmoid(o.Beta*(c.ratio()-baseline)), sigmoid(o.Beta*(baseline-r.ratio()))
		return (2 - good - bad) / 2, o.Beta * good * (1 - good) / 2, -o.Beta * bad * (1 - bad) / 2
	}
	d := o.Beta * (c.ratio() - r.ratio())
	slope := o.Beta * (-(1-o.Smoothing)*sigmoid(-d) + o.Smoothing*sigmoid(d))
	return -(1-o.Smoothing)*logSigmoid(d) - o.Smoothing*logSigmoid(-d), -slope, slope
}

// odds returns ORPO's loss and derivatives.
func (o Objective) odds(c, r Answer) (loss, dc, dr float64) {
	a, b := c.perToken(), r.perToken()
	d := (a - b) - (log1mexp(a) - log1mexp(b))
	slope := -o.Beta * sigmoid(-d)
	nc, nr := float64(max(c.Tokens, 1)), float64(max(r.Tokens, 1))
	// d(a - log(1 - eᵃ))/da = 1/(1 - eᵃ)
	da, db := slope/-math.Expm1(min(a, -tiny)), -slope/-math.Expm1(min(b, -tiny))
	return -a - o.Beta*logSigmoid(d), (1 - da) / nc, -db / nr
}

// tiny bounds the log probability per token of a certain answer away from 0,
// where its odds are infinite.
const tiny = 1e-9

// log1mexp returns log(1 - eˣ) for x below 0.
func log1mexp(x float64) float64 {
	x = min(x, -tiny)
	if x < -math.Ln2 {
		return math.Log1p(-math.Exp(x))
	}
	return math.Log(-math.Expm1(x))
}

func sigmoid(x float64) float64 {
	if x < 0 {
		e := math.Exp(x)
		return e / (1 + e)
	}
	return 1 / (1 + math.Exp(-x))
}

// logSigmoid returns log σ(x).
func logSigmoid(x float64) float64 { return min(x, 0) - math.Log1p(math.Exp(-math.Abs(x))) }

// Prefers reports whether the loss has the answers in the right order: the
// chosen one has gained more than the rejected one or, without a reference, is
// likelier per token.
func (o Objective) Prefers(chosen, rejected Answer) bool {
	if o.Referenced() {
		return chosen.ratio() > rejected.ratio()
	}
	return chosen.perToken() > rejected.perToken()
}

package judge

// The limits, for tests.
const (
	MaxText      = maxText
	MaxTexts     = maxTexts
	MaxEvidence  = maxEvidence
	MaxFile      = maxFile
	MaxDamage    = maxDamage
	MaxCosine    = maxCosine
	MinCelsius   = minCelsius
	MaxCelsius   = maxCelsius
	MinDelegate  = minDelegate
	MaxFertility = maxFertility
	MinCosine    = minCosine
	MinLowCosine = minLowCosine
	MaxSameness  = maxSameness
	MinChip      = minChip
	Tolerance    = tolerance
	Drift        = drift
)

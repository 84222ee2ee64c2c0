package telemetry

const (
	MinCelsius = minCelsius
	MaxCelsius = maxCelsius
)

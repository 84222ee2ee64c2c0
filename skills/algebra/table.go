package algebra

import "sync"

// prefix is a power of 10 or 1024 before a unit.
type prefix struct{ name, size string }

// prefixes lists long names before short ones.
var prefixes = []prefix{
	{"nano", "1e-9"}, {"micro", "1e-6"}, {"milli", "1e-3"}, {"centi", "1e-2"}, {"deci", "1e-1"}, {"deca", "1e1"}, {"hecto", "1e2"}, {"kilo", "1e3"},
	{"mega", "1e6"}, {"giga", "1e9"}, {"tera", "1e12"}, {"peta", "1e15"},
	{"Ki", "1024"}, {"Mi", "1048576"}, {"Gi", "1073741824"}, {"Ti", "1099511627776"},
	{"p", "1e-12"}, {"n", "1e-9"}, {"µ", "1e-6"}, {"μ", "1e-6"}, {"u", "1e-6"}, {"m", "1e-3"}, {"c", "1e-2"}, {"da", "1e1"}, {"d", "1e-1"}, {"h", "1e2"},
	{"k", "1e3"}, {"M", "1e6"}, {"G", "1e9"}, {"T", "1e12"}, {"P", "1e15"},
}

// prefixKind selects the prefixes that a unit takes.
type prefixKind int

const (
	noPrefix prefixKind = iota
	symbolic            // km
	worded              // kilometer
)

type tableUnit struct {
	size  string // in SI units
	dim   dim
	takes prefixKind
}

// Dimensions in unitTable.
var (
	dimNone        = dim{}
	dimLength      = dim{1}
	dimMass        = dim{0, 1}
	dimTime        = dim{0, 0, 1}
	dimCurrent     = dim{0, 0, 0, 1}
	dimTemperature = dim{0, 0, 0, 0, 1}
	dimAmount      = dim{0, 0, 0, 0, 0, 1}
	dimIntensity   = dim{0, 0, 0, 0, 0, 0, 1}
	dimData        = dim{0, 0, 0, 0, 0, 0, 0, 1}
	dimAngle       = dim{0, 0, 0, 0, 0, 0, 0, 0, 1}
	dimArea        = dim{2}
	dimVolume      = dim{3}
	dimSpeed       = dim{1, 0, -1}
	dimFrequency   = dim{0, 0, -1}
	dimForce       = dim{1, 1, -2}
	dimPressure    = dim{-1, 1, -2}
	dimEnergy      = dim{2, 1, -2}
	dimPower       = dim{2, 1, -3}
	dimCharge      = dim{0, 0, 1, 1}
	dimVoltage     = dim{2, 1, -3, -1}
	dimResistance  = dim{2, 1, -3, -2}
	dimCapacitance = dim{-2, -1, 4, 2}
	dimFluxDensity = dim{0, 1, -2, -1}
	dimFlux        = dim{2, 1, -2, -1}
	dimInductance  = dim{2, 1, -2, -2}
)

// unitTable holds sizes from the SI brochure (2019) and NIST SP 811. They are exact
// except for angles, in which pi has 40 digits.
var unitTable = sync.OnceValue(func() map[string]tableUnit {
	return map[string]tableUnit{
		"m": {"1", dimLength, symbolic}, "meter": {"1", dimLength, worded}, "metre": {"1", dimLength, worded},
		"in": {"0.0254", dimLength, noPrefix}, "inch": {"0.0254", dimLength, noPrefix}, "inches": {"0.0254", dimLength, noPrefix},
		"ft": {"0.3048", dimLength, noPrefix}, "foot": {"0.3048", dimLength, noPrefix}, "feet": {"0.3048", dimLength, noPrefix},
		"yd": {"0.9144", dimLength, noPrefix}, "yard": {"0.9144", dimLength, noPrefix}, "mi": {"1609.344", dimLength, noPrefix}, "mile": {"1609.344", dimLength, noPrefix},
		"nmi": {"1852", dimLength, noPrefix}, "au": {"149597870700", dimLength, noPrefix}, "ly": {"9460730472580800", dimLength, noPrefix}, "angstrom": {"1e-10", dimLength, noPrefix},

		"g": {"0.001", dimMass, symbolic}, "gram": {"0.001", dimMass, worded}, "t": {"1000", dimMass, noPrefix}, "tonne": {"1000", dimMass, noPrefix}, "ton": {"907.18474", dimMass, noPrefix},
		"lb": {"0.45359237", dimMass, noPrefix}, "lbs": {"0.45359237", dimMass, noPrefix}, "pound": {"0.45359237", dimMass, noPrefix}, "oz": {"0.028349523125", dimMass, noPrefix}, "ounce": {"0.028349523125", dimMass, noPrefix},
		"stone": {"6.35029318", dimMass, noPrefix},

		"s": {"1", dimTime, symbolic}, "sec": {"1", dimTime, noPrefix}, "second": {"1", dimTime, worded}, "min": {"60", dimTime, noPrefix}, "minute": {"60", dimTime, noPrefix},
		"h": {"3600", dimTime, noPrefix}, "hr": {"3600", dimTime, noPrefix}, "hour": {"3600", dimTime, noPrefix}, "d": {"86400", dimTime, noPrefix}, "day": {"86400", dimTime, noPrefix},
		"week": {"604800", dimTime, noPrefix}, "year": {"31557600", dimTime, noPrefix}, "yr": {"31557600", dimTime, noPrefix},

		"A": {"1", dimCurrent, symbolic}, "ampere": {"1", dimCurrent, worded}, "amp": {"1", dimCurrent, worded},
		"K": {"1", dimTemperature, symbolic}, "kelvin": {"1", dimTemperature, worded}, "degC": {"1", dimTemperature, noPrefix}, "°C": {"1", dimTemperature, noPrefix}, "degF": {"5/9", dimTemperature, noPrefix}, "°F": {"5/9", dimTemperature, noPrefix},
		"mol": {"1", dimAmount, symbolic}, "mole": {"1", dimAmount, worded}, "cd": {"1", dimIntensity, symbolic}, "candela": {"1", dimIntensity, worded},

		"B": {"1", dimData, symbolic}, "byte": {"1", dimData, worded}, "bit": {"1/8", dimData, symbolic}, "b": {"1/8", dimData, symbolic},
		"rad": {"1", dimAngle, symbolic}, "radian": {"1", dimAngle, worded}, "deg": {"3.1415926535897932384626433832795028841972/180", dimAngle, noPrefix}, "degree": {"3.1415926535897932384626433832795028841972/180", dimAngle, noPrefix},
		"°": {"3.1415926535897932384626433832795028841972/180", dimAngle, noPrefix}, "turn": {"6.2831853071795864769252867665590057683943", dimAngle, noPrefix}, "rev": {"6.2831853071795864769252867665590057683943", dimAngle, noPrefix},

		"are": {"100", dimArea, noPrefix}, "ha": {"10000", dimArea, noPrefix}, "hectare": {"10000", dimArea, noPrefix}, "acre": {"4046.8564224", dimArea, noPrefix},
		"L": {"0.001", dimVolume, symbolic}, "l": {"0.001", dimVolume, symbolic}, "liter": {"0.001", dimVolume, worded}, "litre": {"0.001", dimVolume, worded},
		"gal": {"0.003785411784", dimVolume, noPrefix}, "gallon": {"0.003785411784", dimVolume, noPrefix}, "qt": {"0.000946352946", dimVolume, noPrefix}, "quart": {"0.000946352946", dimVolume, noPrefix},
		"pt": {"0.000473176473", dimVolume, noPrefix}, "pint": {"0.000473176473", dimVolume, noPrefix}, "cup": {"0.0002365882365", dimVolume, noPrefix}, "floz": {"0.0000295735295625", dimVolume, noPrefix},
		"tbsp": {"0.00001478676478125", dimVolume, noPrefix}, "tsp": {"0.00000492892159375", dimVolume, noPrefix}, "tablespoon": {"0.00001478676478125", dimVolume, noPrefix}, "teaspoon": {"0.00000492892159375", dimVolume, noPrefix},

		"mph": {"0.44704", dimSpeed, noPrefix}, "kph": {"1/3.6", dimSpeed, noPrefix}, "kmh": {"1/3.6", dimSpeed, noPrefix}, "kn": {"1852/3600", dimSpeed, noPrefix}, "knot": {"1852/3600", dimSpeed, noPrefix},
		"Hz": {"1", dimFrequency, symbolic}, "hertz": {"1", dimFrequency, worded}, "Bq": {"1", dimFrequency, symbolic},
		"N": {"1", dimForce, symbolic}, "newton": {"1", dimForce, worded}, "lbf": {"4.4482216152605", dimForce, noPrefix},
		"Pa": {"1", dimPressure, symbolic}, "pascal": {"1", dimPressure, worded}, "bar": {"100000", dimPressure, symbolic}, "atm": {"101325", dimPressure, noPrefix},
		"psi": {"6894.757293168361", dimPressure, noPrefix}, "mmHg": {"133.322387415", dimPressure, noPrefix}, "torr": {"101325/760", dimPressure, noPrefix},
		"J": {"1", dimEnergy, symbolic}, "joule": {"1", dimEnergy, worded}, "Wh": {"3600", dimEnergy, symbolic}, "eV": {"1.602176634e-19", dimEnergy, symbolic},
		"cal": {"4.184", dimEnergy, symbolic}, "calorie": {"4.184", dimEnergy, worded}, "BTU": {"1055.05585262", dimEnergy, noPrefix},
		"W": {"1", dimPower, symbolic}, "watt": {"1", dimPower, worded}, "hp": {"745.69987158227022", dimPower, noPrefix},
		"C": {"1", dimCharge, symbolic}, "coulomb": {"1", dimCharge, worded}, "Ah": {"3600", dimCharge, symbolic}, "V": {"1", dimVoltage, symbolic}, "volt": {"1", dimVoltage, worded},
		"ohm": {"1", dimResistance, worded}, "Ω": {"1", dimResistance, symbolic}, "F": {"1", dimCapacitance, symbolic}, "T": {"1", dimFluxDensity, symbolic}, "Wb": {"1", dimFlux, symbolic}, "H": {"1", dimInductance, symbolic},
		"percent": {"0.01", dimNone, noPrefix}, "dozen": {"12", dimNone, noPrefix},
	}
})

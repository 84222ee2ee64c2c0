package unit

// prefix is a power of ten, or of 1024, before a unit.
type prefix struct{ name, size string }

// prefixes, long names before short ones.
var prefixes = []prefix{
	{"nano", "1e-9"}, {"micro", "1e-6"}, {"milli", "1e-3"}, {"centi", "1e-2"}, {"deci", "1e-1"}, {"deca", "1e1"}, {"hecto", "1e2"}, {"kilo", "1e3"},
	{"mega", "1e6"}, {"giga", "1e9"}, {"tera", "1e12"}, {"peta", "1e15"},
	{"Ki", "1024"}, {"Mi", "1048576"}, {"Gi", "1073741824"}, {"Ti", "1099511627776"},
	{"p", "1e-12"}, {"n", "1e-9"}, {"µ", "1e-6"}, {"μ", "1e-6"}, {"u", "1e-6"}, {"m", "1e-3"}, {"c", "1e-2"}, {"da", "1e1"}, {"d", "1e-1"}, {"h", "1e2"},
	{"k", "1e3"}, {"M", "1e6"}, {"G", "1e9"}, {"T", "1e12"}, {"P", "1e15"},
}

// takes says which prefixes a unit takes.
type takes int

const (
	none     takes = iota
	symbolic       // km
	worded         // kilometre
)

type known struct {
	size  string // in units of the SI
	dim   Dim
	takes takes
}

// Dimensions that units of the table have.
var (
	one       = Dim{}
	length    = Dim{1}
	mass      = Dim{0, 1}
	time      = Dim{0, 0, 1}
	current   = Dim{0, 0, 0, 1}
	warmth    = Dim{0, 0, 0, 0, 1}
	amount    = Dim{0, 0, 0, 0, 0, 1}
	light     = Dim{0, 0, 0, 0, 0, 0, 1}
	data      = Dim{0, 0, 0, 0, 0, 0, 0, 1}
	angle     = Dim{0, 0, 0, 0, 0, 0, 0, 0, 1}
	area      = Dim{2}
	volume    = Dim{3}
	speed     = Dim{1, 0, -1}
	frequency = Dim{0, 0, -1}
	force     = Dim{1, 1, -2}
	pressure  = Dim{-1, 1, -2}
	energy    = Dim{2, 1, -2}
	power     = Dim{2, 1, -3}
	charge    = Dim{0, 0, 1, 1}
	voltage   = Dim{2, 1, -3, -1}
	ohm       = Dim{2, 1, -3, -2}
	farad     = Dim{-2, -1, 4, 2}
	tesla     = Dim{0, 1, -2, -1}
	weber     = Dim{2, 1, -2, -1}
	henry     = Dim{2, 1, -2, -2}
)

// table of units: SI brochure (2019), NIST SP 811 for the others.
var table = map[string]known{
	"m": {"1", length, symbolic}, "meter": {"1", length, worded}, "metre": {"1", length, worded},
	"in": {"0.0254", length, none}, "inch": {"0.0254", length, none}, "inches": {"0.0254", length, none},
	"ft": {"0.3048", length, none}, "foot": {"0.3048", length, none}, "feet": {"0.3048", length, none},
	"yd": {"0.9144", length, none}, "yard": {"0.9144", length, none}, "mi": {"1609.344", length, none}, "mile": {"1609.344", length, none},
	"nmi": {"1852", length, none}, "au": {"149597870700", length, none}, "ly": {"9460730472580800", length, none}, "angstrom": {"1e-10", length, none},

	"g": {"0.001", mass, symbolic}, "gram": {"0.001", mass, worded}, "t": {"1000", mass, none}, "tonne": {"1000", mass, none}, "ton": {"907.18474", mass, none},
	"lb": {"0.45359237", mass, none}, "lbs": {"0.45359237", mass, none}, "pound": {"0.45359237", mass, none}, "oz": {"0.028349523125", mass, none}, "ounce": {"0.028349523125", mass, none},
	"stone": {"6.35029318", mass, none},

	"s": {"1", time, symbolic}, "sec": {"1", time, none}, "second": {"1", time, worded}, "min": {"60", time, none}, "minute": {"60", time, none},
	"h": {"3600", time, none}, "hr": {"3600", time, none}, "hour": {"3600", time, none}, "d": {"86400", time, none}, "day": {"86400", time, none},
	"week": {"604800", time, none}, "year": {"31557600", time, none}, "yr": {"31557600", time, none},

	"A": {"1", current, symbolic}, "ampere": {"1", current, worded}, "amp": {"1", current, worded},
	"K": {"1", warmth, symbolic}, "kelvin": {"1", warmth, worded}, "degC": {"1", warmth, none}, "°C": {"1", warmth, none}, "degF": {"5/9", warmth, none}, "°F": {"5/9", warmth, none},
	"mol": {"1", amount, symbolic}, "mole": {"1", amount, worded}, "cd": {"1", light, symbolic}, "candela": {"1", light, worded},

	"B": {"1", data, symbolic}, "byte": {"1", data, worded}, "bit": {"1/8", data, symbolic}, "b": {"1/8", data, symbolic},
	"rad": {"1", angle, symbolic}, "radian": {"1", angle, worded}, "deg": {"3.1415926535897932384626433832795028841972/180", angle, none}, "degree": {"3.1415926535897932384626433832795028841972/180", angle, none},
	"°": {"3.1415926535897932384626433832795028841972/180", angle, none}, "turn": {"6.2831853071795864769252867665590057683943", angle, none}, "rev": {"6.2831853071795864769252867665590057683943", angle, none},

	"are": {"100", area, none}, "ha": {"10000", area, none}, "hectare": {"10000", area, none}, "acre": {"4046.8564224", area, none},
	"L": {"0.001", volume, symbolic}, "l": {"0.001", volume, symbolic}, "liter": {"0.001", volume, worded}, "litre": {"0.001", volume, worded},
	"gal": {"0.003785411784", volume, none}, "gallon": {"0.003785411784", volume, none}, "qt": {"0.000946352946", volume, none}, "quart": {"0.000946352946", volume, none},
	"pt": {"0.000473176473", volume, none}, "pint": {"0.000473176473", volume, none}, "cup": {"0.0002365882365", volume, none}, "floz": {"0.0000295735295625", volume, none},
	"tbsp": {"0.00001478676478125", volume, none}, "tsp": {"0.00000492892159375", volume, none}, "tablespoon": {"0.00001478676478125", volume, none}, "teaspoon": {"0.00000492892159375", volume, none},

	"mph": {"0.44704", speed, none}, "kph": {"1/3.6", speed, none}, "kmh": {"1/3.6", speed, none}, "kn": {"1852/3600", speed, none}, "knot": {"1852/3600", speed, none},
	"Hz": {"1", frequency, symbolic}, "hertz": {"1", frequency, worded}, "Bq": {"1", frequency, symbolic},
	"N": {"1", force, symbolic}, "newton": {"1", force, worded}, "lbf": {"4.4482216152605", force, none},
	"Pa": {"1", pressure, symbolic}, "pascal": {"1", pressure, worded}, "bar": {"100000", pressure, symbolic}, "atm": {"101325", pressure, none},
	"psi": {"6894.757293168361", pressure, none}, "mmHg": {"133.322387415", pressure, none}, "torr": {"101325/760", pressure, none},
	"J": {"1", energy, symbolic}, "joule": {"1", energy, worded}, "Wh": {"3600", energy, symbolic}, "eV": {"1.602176634e-19", energy, symbolic},
	"cal": {"4.184", energy, symbolic}, "calorie": {"4.184", energy, worded}, "BTU": {"1055.05585262", energy, none},
	"W": {"1", power, symbolic}, "watt": {"1", power, worded}, "hp": {"745.69987158227022", power, none},
	"C": {"1", charge, symbolic}, "coulomb": {"1", charge, worded}, "Ah": {"3600", charge, symbolic}, "V": {"1", voltage, symbolic}, "volt": {"1", voltage, worded},
	"ohm": {"1", ohm, worded}, "Ω": {"1", ohm, symbolic}, "F": {"1", farad, symbolic}, "T": {"1", tesla, symbolic}, "Wb": {"1", weber, symbolic}, "H": {"1", henry, symbolic},
	"percent": {"0.01", one, none}, "dozen": {"12", one, none},
}

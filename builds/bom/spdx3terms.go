package bom

import "strings"

// spdx3Terms lists the classes that CheckSPDX3 reads: name, parent, and the properties
// with their kinds. "!" marks a required property, "*" one with several values.
const spdx3Terms = `
CreationInfo - @id:id specVersion:text! created:time! createdBy:ref*! createdUsing:ref* comment:text
Element - spdxId:id! creationInfo:ref! name:text description:text summary:text comment:text verifiedUsing:ref* externalIdentifier:ref* externalRef:ref* extension:ref*
Agent Element
Organization Element
Person Element
SoftwareAgent Element
Tool Element
Artifact Element builtTime:time originatedBy:ref* releaseTime:time standardName:text* suppliedBy:ref supportLevel:text* validUntilTime:time
SoftwareArtifact Artifact software_additionalPurpose:purpose* software_attributionText:text* software_contentIdentifier:ref* software_copyrightText:text software_primaryPurpose:purpose
software_File SoftwareArtifact name:text! contentType:text software_fileKind:file
software_Package SoftwareArtifact name:text! suppliedBy:ref! software_packageVersion:text! software_downloadLocation:text software_homePage:text software_packageUrl:text software_sourceInfo:text
ai_AIPackage software_Package ai_autonomyType:presence ai_domain:text* ai_energyConsumption:ref ai_hyperparameter:ref* ai_informationAboutApplication:text ai_informationAboutTraining:text ai_limitation:text ai_metric:ref* ai_metricDecisionThreshold:ref* ai_modelDataPreprocessing:text* ai_modelExplainability:text* ai_safetyRiskAssessment:risk ai_standardCompliance:text* ai_typeOfModel:text* ai_useSensitivePersonalInformation:presence
dataset_DatasetPackage software_Package dataset_anonymizationMethodUsed:text* dataset_confidentialityLevel:confidentiality dataset_dataCollectionProcess:text dataset_dataPreprocessing:text* dataset_datasetAvailability:availability dataset_datasetNoise:text dataset_datasetSize:count dataset_datasetType:dataset*! dataset_datasetUpdateMechanism:text dataset_hasSensitivePersonalInformation:presence dataset_intendedUse:text dataset_knownBias:text* dataset_sensor:ref*
ai_EnergyConsumption - ai_finetuningEnergyConsumption:ref* ai_inferenceEnergyConsumption:ref* ai_trainingEnergyConsumption:ref*
ai_EnergyConsumptionDescription - ai_energyQuantity:number! ai_energyUnit:unit!
Collection Element element:ref* rootElement:ref*! profileConformance:profile*
SpdxDocument Collection dataLicense:ref import:ref* namespaceMap:ref*
software_Sbom Collection context:text software_sbomType:sbom*
Relationship Element from:ref! to:ref*! relationshipType:relationship! completeness:completeness startTime:time endTime:time
LifecycleScopedRelationship Relationship scope:scope
simplelicensing_LicenseExpression Element simplelicensing_licenseExpression:license! simplelicensing_licenseListVersion:text simplelicensing_customIdToUri:ref*
simplelicensing_SimpleLicensingText Element simplelicensing_licenseText:text!
Hash - algorithm:hash! hashValue:text! comment:text
DictionaryEntry - key:text! value:text
ExternalIdentifier - externalIdentifierType:text! identifier:text! comment:text identifierLocator:text* issuingAuthority:text
ExternalRef - externalRefType:text locator:text* contentType:text comment:text
ExternalMap - externalSpdxId:text! locationHint:text verifiedUsing:ref* definingArtifact:ref
NamespaceMap - prefix:text! namespace:text!
`

// spdx3Values lists the values of enumerations.
const spdx3Values = `
presence no noAssertion yes
risk high low medium serious
unit kilowattHour megajoule other
file directory file
confidentiality amber clear green red
availability clickthrough directDownload query registration scrapingScript
completeness complete incomplete noAssertion
scope build design development other runtime test
sbom analyzed build deployed design runtime source
profile ai build core dataset expandedLicensing extension lite security simpleLicensing software
dataset audio categorical graph image noAssertion numeric other sensor structured syntactic text timeseries timestamp video
purpose application archive bom configuration container data device deviceDriver diskImage documentation evidence executable file filesystemImage firmware framework install library manifest model module operatingSystem other patch platform requirement source specification test
hash blake2b256:64 blake2b384:96 blake2b512:128 blake3:64 md5:32 sha1:40 sha224:56 sha256:64 sha384:96 sha3_224:56 sha3_256:64 sha3_384:96 sha3_512:128 sha512:128
relationship affects amendedBy ancestorOf availableFrom configures contains coordinatedBy copiedTo delegatedTo dependsOn descendantOf describes doesNotAffect expandsTo exploitCreatedBy fixedBy fixedIn foundBy generates hasAddedFile hasAssessmentFor hasAssociatedVulnerability hasConcludedLicense hasDataFile hasDeclaredLicense hasDeletedFile hasDependencyManifest hasDistributionArtifact hasDocumentation hasDynamicLink hasEvidence hasExample hasHost hasInput hasMetadata hasOptionalComponent hasOptionalDependency hasOutput hasPrerequisite hasProvidedDependency hasRequirement hasSpecification hasStaticLink hasTest hasTestCase hasVariant invokedBy modifiedBy other packagedBy patchedBy publishedBy reportedBy republishedBy serializedInArtifact testedOn trainedOn underInvestigationFor usesTool
`

// term is a property of a class.
type term struct {
	kind           string
	required, many bool
}

// vocabulary maps classes to properties, and enumerations to values.
type vocabulary struct {
	classes map[string]map[string]term
	values  map[string]map[string]string // the digits of a hash; "" of others
}

// newVocabulary parses the tables. A property of a class replaces that of its parent.
func newVocabulary() vocabulary {
	v := vocabulary{map[string]map[string]term{}, map[string]map[string]string{}}
	for line := range strings.Lines(strings.TrimSpace(spdx3Terms)) {
		fields := strings.Fields(line)
		class := map[string]term{"type": {"text", true, false}}
		for name, t := range v.classes[fields[1]] {
			class[name] = t
		}
		for _, f := range fields[2:] {
			name, kind, _ := strings.Cut(f, ":")
			class[name] = term{strings.TrimRight(kind, "*!"), strings.HasSuffix(kind, "!"), strings.Contains(kind, "*")}
		}
		v.classes[fields[0]] = class
	}
	for line := range strings.Lines(strings.TrimSpace(spdx3Values)) {
		fields := strings.Fields(line)
		v.values[fields[0]] = map[string]string{}
		for _, f := range fields[1:] {
			name, digits, _ := strings.Cut(f, ":")
			v.values[fields[0]][name] = digits
		}
	}
	return v
}

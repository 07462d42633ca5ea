{{/* Name that every object's name begins with. */}}
{{- define "windlass.fullname" -}}
{{- .Values.fullnameOverride | default .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{/* Labels of every object. */}}
{{- define "windlass.labels" -}}
{{ include "windlass.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/part-of: windlass
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* Labels by which pods are found; they never change in the life of a release. */}}
{{- define "windlass.selectorLabels" -}}
app.kubernetes.io/name: windlass
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: controller
{{- end -}}

{{- define "windlass.serviceAccountName" -}}
{{- .Values.serviceAccount.name | default (include "windlass.fullname" .) -}}
{{- end -}}

{{- define "windlass.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{/* Names that are not those of a namespace: two releases must not share them. */}}
{{- define "windlass.clusterName" -}}
{{- if eq (include "windlass.fullname" .) .Release.Namespace -}}
{{ .Release.Namespace }}
{{- else -}}
{{ printf "%s-%s" .Release.Namespace (include "windlass.fullname" .) | trunc 63 | trimSuffix "-" }}
{{- end -}}
{{- end -}}

{{/* "true" when there is a webhook to serve: wanted, and for a kind that is on. */}}
{{- define "windlass.webhook" -}}
{{- if and .Values.webhook.enabled .Values.controllers.deliver.enabled -}}true{{- end -}}
{{- end -}}

{{- define "windlass.webhookService" -}}
{{ include "windlass.fullname" . }}-webhook
{{- end -}}

{{- define "windlass.webhookSecret" -}}
{{ include "windlass.fullname" . }}-webhook-tls
{{- end -}}

{{/* "true" when hooks of Git servers are taken: wanted, and somebody there who fetches. */}}
{{- define "windlass.hooks" -}}
{{- if and .Values.hooks.enabled .Values.controllers.deliver.enabled -}}true{{- end -}}
{{- end -}}

{{- define "windlass.hooksSecret" -}}
{{- .Values.hooks.secret | default (printf "%s-hooks" (include "windlass.fullname" .)) -}}
{{- end -}}

{{/* The controllers that are on, by their names in the binary. */}}
{{- define "windlass.controllers" -}}
{{- $on := list -}}
{{- if .Values.controllers.deliver.enabled -}}
{{- $on = concat $on (list "application" "cluster") -}}
{{- end -}}
{{- if .Values.controllers.rollout.enabled -}}
{{- $on = concat $on (list "analysisrun" "experiment" "rollout") -}}
{{- end -}}
{{- toYaml $on -}}
{{- end -}}

{{/* The settings of the controller: what the chart knows, and what the user says on top. */}}
{{- define "windlass.config" -}}
{{- $config := dict
  "namespace" .Release.Namespace
  "controllers" (include "windlass.controllers" . | fromYamlArray)
  "secretNamespaces" (.Values.secretNamespaces | default (list .Release.Namespace))
  "leaseName" (include "windlass.fullname" .)
  "httpAddress" ":8080"
  "webhook" (eq (include "windlass.webhook" .) "true")
  "workDir" "/var/lib/windlass"
  "hooks" (eq (include "windlass.hooks" .) "true")
  "logFormat" "json"
-}}
{{- if .Values.controllers.deliver.enabled -}}
{{- $_ := set $config "allowCrossNamespaceDependencies" .Values.applications.allowCrossNamespaceDependencies -}}
{{- with .Values.applications.defaultServiceAccount -}}
{{- $_ := set $config "defaultServiceAccount" . -}}
{{- end -}}
{{- end -}}
{{- if include "windlass.hooks" . -}}
{{- $_ := set $config "hooksAddress" ":8090" -}}
{{- $_ := set $config "hooksSecret" (include "windlass.hooksSecret" .) -}}
{{- end -}}
{{- if include "windlass.webhook" . -}}
{{- $_ := set $config "webhookAddress" ":9443" -}}
{{- $_ := set $config "webhookService" (include "windlass.webhookService" .) -}}
{{- $_ := set $config "webhookSecret" (include "windlass.webhookSecret" .) -}}
{{- $_ := set $config "webhookConfigurations" (list (include "windlass.clusterName" .)) -}}
{{- if .Values.webhook.certManager.enabled -}}
{{- $_ := set $config "certDir" "/certificates" -}}
{{- end -}}
{{- end -}}
{{- toYaml (mergeOverwrite $config (deepCopy .Values.config)) -}}
{{- end -}}

"""The Celery workers: they grow trees and mine rules; what they are told and what they answer is the contract's."""

import "uplot/dist/uPlot.min.css";
import "./page.css";
import "./frame/frame";
import { beginSettings } from "./frame/settings";
import { station } from "./wire/station";

beginSettings();
station.start();
